"""Curation inside Trinity-RFT 0.6: an experience operator and an advantage function, both named by dotted path.

`geoalign.adapters.trinity.GeoAlignOperator` stands under `data_processor.experience_pipeline.operators`,
`geoalign.adapters.trinity.GeoAlignAdvantage` under `algorithm.advantage_fn`. Trinity is imported when one of them is
asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geoalign.adapters.trinity.advantage import GeoAlignAdvantage
    from geoalign.adapters.trinity.operator import GeoAlignOperator

__all__ = ["GeoAlignAdvantage", "GeoAlignOperator"]

_PLACES = {"GeoAlignAdvantage": "advantage", "GeoAlignOperator": "operator"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from geoalign.adapters.trinity.version import check_version

    check_version()
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
