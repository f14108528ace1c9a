"""Curation inside Trinity-RFT 0.6: an experience operator and an advantage function, both named by dotted path.

`geoalign.adapters.trinity.GeoAlignOperator` goes under `data_processor.experience_pipeline.operators`,
`geoalign.adapters.trinity.GeoAlignAdvantage` under `algorithm.advantage_fn`. Trinity is imported when one of them is
asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from geoalign.adapters.exports import check_engine

if TYPE_CHECKING:
    from geoalign.adapters.trinity.operators import GeoAlignAdvantage, GeoAlignOperator

__all__ = ["GeoAlignAdvantage", "GeoAlignOperator"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_version()
    return getattr(import_module(f"{__name__}.operators"), name)


def check_version(installed: str | None = None) -> None:
    """Raises UnsupportedError unless Trinity-RFT's version (default: the installed one's) is in the supported range."""
    check_engine("trinity-rft", extra="trinity", versions=">=0.6,<0.7", installed=installed)
