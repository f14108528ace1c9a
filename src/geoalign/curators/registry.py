"""The curators by name: the built-in ones and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from geoalign.curators.base import Curator
from geoalign.errors import ConfigError

ENTRY_POINT_GROUP = "geoalign.curators"

_BUILT_IN = {
    "grpo": "geoalign.curators.grpo:GRPO",
    "geoalign": "geoalign.curators.geoalign:GeoAlign",
    "geoalign_released": "geoalign.curators.geoalign_released:GeoAlignReleased",
    "pf_ppo_br": "geoalign.curators.pf_ppo:PFPPOBestRandom",
    "pf_ppo_bw": "geoalign.curators.pf_ppo:PFPPOBestWorst",
    "par": "geoalign.curators.par:PAR",
    "pods": "geoalign.curators.pods:PODS",
    "seed_grpo": "geoalign.curators.seed_grpo:SeedGRPO",
    "s_grpo": "geoalign.curators.s_grpo:SGRPO",
    "dapo_filter_only": "geoalign.curators.dapo_filter:DAPOFilterOnly",
    "cppo": "geoalign.curators.cppo:CPPO",
    "gfpo": "geoalign.curators.gfpo:GFPO",
    "mc_grpo": "geoalign.curators.mc_grpo:MCGRPO",
    "quantile": "geoalign.curators.quantile:QuantileBaseline",
    "pair_count": "geoalign.curators.controls:PairCount",
    "reward_distance": "geoalign.curators.controls:RewardDistance",
    "random": "geoalign.curators.controls:Random",
    "oracle": "geoalign.curators.controls:Oracle",
    "chain": "geoalign.curators.chain:Chain",
}


class _Curators(Mapping[str, type[Curator]]):
    """Names to curator classes; a class is imported when it is first asked for."""

    def _locations(self) -> dict[str, Any]:
        installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
        return {**installed, **_BUILT_IN}

    def __getitem__(self, name: str) -> type[Curator]:
        locations = self._locations()
        if name not in locations:
            raise ConfigError(f"curator: expected one of {', '.join(sorted(locations))}; got {name!r}")
        location = locations[name]
        if not isinstance(location, str):
            return location.load()
        module, _, attribute = location.partition(":")
        return getattr(import_module(module), attribute)

    def __contains__(self, name: object) -> bool:
        return name in self._locations()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._locations()))

    def __len__(self) -> int:
        return len(self._locations())


CURATORS: Mapping[str, type[Curator]] = _Curators()


def make_curator(config: Any) -> Curator:
    """The curator of a settings object from the `curator:` section of a run's config, by the type of the settings.

    Raises:
        ConfigError: no known curator takes settings of this type.
    """
    for name in CURATORS:
        curator_class = CURATORS[name]
        if type(config) is curator_class.config_class:
            return curator_class(config)
    raise ConfigError(f"curator: no curator takes settings of type {type(config).__name__}")
