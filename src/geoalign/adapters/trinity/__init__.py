"""Curation inside Trinity-RFT 0.6: an experience operator and an advantage function, both named by dotted path.

`geoalign.adapters.trinity.GeoAlignOperator` goes under `data_processor.experience_pipeline.operators`,
`geoalign.adapters.trinity.GeoAlignAdvantage` under `algorithm.advantage_fn`. Trinity is imported when one of them is
asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from geoalign.errors import MissingExtraError, UnsupportedError

if TYPE_CHECKING:
    from geoalign.adapters.trinity.advantage import GeoAlignAdvantage
    from geoalign.adapters.trinity.operator import GeoAlignOperator

__all__ = ["GeoAlignAdvantage", "GeoAlignOperator"]

_SUPPORTED = "0.6"
_MODULES = {"GeoAlignAdvantage": "advantage", "GeoAlignOperator": "operator"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_version()
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def check_version(installed: str | None = None) -> None:
    """Checks the installed Trinity-RFT, or the version given.

    Raises:
        MissingExtraError: it is not installed.
        UnsupportedError: it is older or newer than 0.6.
    """
    if installed is None:
        try:
            installed = version("trinity-rft")
        except PackageNotFoundError as error:
            raise MissingExtraError(
                "trinity-rft is not installed: pip install 'geoalign[trinity]', in an environment of its own"
            ) from error
    if ".".join(installed.split(".")[:2]) != _SUPPORTED:
        raise UnsupportedError(f"trinity-rft {installed}: expected {_SUPPORTED}; pip install 'trinity-rft>=0.6,<0.7'")
