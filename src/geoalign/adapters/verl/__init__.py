"""GeoAlign, or any other curator, inside verl's PPO trainers. verl is imported when a part of it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoalign.adapters.exports import lazy_exports

if TYPE_CHECKING:
    from geoalign.adapters.failures import unscored_on_failure
    from geoalign.adapters.verl.trainers import CuratedSteps

__all__ = ["CuratedSteps", "unscored_on_failure"]

_HOMES = {"CuratedSteps": "geoalign.adapters.verl.trainers", "unscored_on_failure": "geoalign.adapters.failures"}

if not TYPE_CHECKING:  # for type checkers any name would exist otherwise
    __getattr__ = lazy_exports(__name__, _HOMES, "pip install 'geoalign[verl]', in an environment of its own")
