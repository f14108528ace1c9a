"""Whether a curator that keeps so many rollouts of a group can do so with the run's group size."""

from __future__ import annotations

from typing import Any

from geoalign.curators.chain import ChainConfig
from geoalign.curators.gfpo import GFPOConfig
from geoalign.curators.pods import PODSConfig
from geoalign.errors import ConfigError
from geoalign.settings.locations import Locations


def check_subset(
    curator: Any, samples: int, *, whole: bool, places: Locations | None = None, key: str = "curator"
) -> None:
    """Raises ConfigError where a curator is set to keep more rollouts than a group has.

    Args:
        curator: its settings; those of a chain are looked through.
        samples: rollouts of each group.
        whole: whether all of a group may be kept. In a comparison it may not: that arm would be plain GRPO.
        places: where the settings were written.
        key: the settings' own key.
    """
    if isinstance(curator, ChainConfig):
        for number, member in enumerate(curator.members):
            check_subset(member, samples, whole=whole, places=places, key=f"{key}.members.{number}")
    kept = {PODSConfig: "m", GFPOConfig: "k"}.get(type(curator))
    if kept is None:
        return
    number = getattr(curator, kept)
    if number is None or number < samples or (whole and number == samples):
        return
    expected = (
        f"at most grpo.num_generations = {samples}"
        if whole
        else f"less than grpo.num_generations = {samples} in a comparison (all rollouts of a group kept is plain GRPO)"
    )
    raise ConfigError(
        f"{(places or Locations()).prefix(f'{key}.{kept}')}{key}.{kept}: expected {expected}, got {number}"
    )
