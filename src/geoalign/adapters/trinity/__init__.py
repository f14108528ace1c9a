"""Curation inside Trinity-RFT 0.6: an experience operator and an advantage function, both named by dotted path.

`geoalign.adapters.trinity.GeoAlignOperator` goes under `data_processor.experience_pipeline.operators`,
`geoalign.adapters.trinity.GeoAlignAdvantage` under `algorithm.advantage_fn`. Trinity is imported when one of them is
asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoalign.adapters.exports import lazy_exports

if TYPE_CHECKING:
    from geoalign.adapters.trinity.operators import GeoAlignAdvantage, GeoAlignOperator

__all__ = ["GeoAlignAdvantage", "GeoAlignOperator"]

_HOMES = dict.fromkeys(__all__, "geoalign.adapters.trinity.operators")

if not TYPE_CHECKING:  # for type checkers any name would exist otherwise
    __getattr__ = lazy_exports(__name__, _HOMES, "pip install 'geoalign[trinity]', in an environment of its own")
