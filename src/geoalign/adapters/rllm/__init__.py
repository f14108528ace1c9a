"""GeoAlign, or any other curator, as an advantage estimator of rLLM. rLLM is imported when one is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoalign.adapters.exports import lazy_exports

if TYPE_CHECKING:
    from geoalign.adapters.rllm.estimator import CuratedEstimator, register

__all__ = ["CuratedEstimator", "register"]

_HOMES = dict.fromkeys(__all__, "geoalign.adapters.rllm.estimator")

if not TYPE_CHECKING:  # for type checkers any name would exist otherwise
    __getattr__ = lazy_exports(__name__, _HOMES, "install rLLM, as its documentation says")
