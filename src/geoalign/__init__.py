"""GeoAlign: geometric rollout curation for reinforcement learning of language models.

Every curator can be imported from here, as can what one needs around them. A name is imported when it is first used, so
that settings and reports never load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from geoalign.answers import boxed_answers as boxed_answers
    from geoalign.curators.chain import Chain as Chain
    from geoalign.curators.curator import Curator as Curator
    from geoalign.curators.denoise import Denoise as Denoise
    from geoalign.curators.denoise import DenoiseConfig as DenoiseConfig
    from geoalign.curators.geoalign import GeoAlign as GeoAlign
    from geoalign.curators.geoalign import GeoAlignConfig as GeoAlignConfig
    from geoalign.curators.registry import CURATORS as CURATORS
    from geoalign.curators.registry import as_curator as as_curator
    from geoalign.method.advantages import group_advantages as group_advantages
    from geoalign.method.projector import ProjectorConfig as ProjectorConfig
    from geoalign.types import Curation as Curation
    from geoalign.types import Rollouts as Rollouts

# Beside the curators, which stand in the registry.
_HOMES = {
    "CURATORS": "geoalign.curators.registry",
    "Curation": "geoalign.types",
    "Curator": "geoalign.curators.curator",
    "DenoiseConfig": "geoalign.curators.denoise",
    "GeoAlignConfig": "geoalign.curators.geoalign",
    "ProjectorConfig": "geoalign.method.projector",
    "Rollouts": "geoalign.types",
    "as_curator": "geoalign.curators.registry",
    "boxed_answers": "geoalign.answers",
    "group_advantages": "geoalign.method.advantages",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    home = _homes().get(name, "") if name[:1].isalpha() else ""
    if not home:
        raise AttributeError(f"module 'geoalign' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*_homes(), "__version__"])


def _homes() -> dict[str, str]:
    from geoalign.curators.registry import BUILT_IN

    curators = (location.partition(":") for location in BUILT_IN.values())
    return {**{name: module for module, _, name in curators}, **_HOMES}
