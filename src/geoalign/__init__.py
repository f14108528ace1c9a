"""GeoAlign: geometric rollout curation for reinforcement learning of language models.

Names are imported when they are first used, so that settings and reports never load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Rollouts": "geoalign.types",
    "Curation": "geoalign.types",
    "Curator": "geoalign.curators.base",
    "GeoAlign": "geoalign.curators.geoalign",
    "CURATORS": "geoalign.curators.registry",
    "GeoAlignConfig": "geoalign.curators.geoalign",
    "ProjectorConfig": "geoalign.method.projector",
    "group_advantages": "geoalign.method.advantages",
}

__all__ = [
    "CURATORS",
    "Curation",
    "Curator",
    "GeoAlign",
    "GeoAlignConfig",
    "ProjectorConfig",
    "Rollouts",
    "__version__",
    "group_advantages",
]

if TYPE_CHECKING:
    from geoalign.curators.base import Curator
    from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
    from geoalign.curators.registry import CURATORS
    from geoalign.method.advantages import group_advantages
    from geoalign.method.projector import ProjectorConfig
    from geoalign.types import Curation, Rollouts


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'geoalign' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
