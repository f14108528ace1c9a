"""The settings under `+geoalign` of verl's own configuration. Imports no torch and no verl."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from geoalign.adapters.sections import read_section
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.settings import setting, settings
from geoalign.settings.hidden import LAST, HiddenLayerSetting, HiddenPosition

SECTION = "geoalign"


@settings
class VerlSettings:
    """What `+geoalign` says."""

    curator: CuratorSection = setting(
        default_factory=default_curator, help="Settings of the curator; `type` picks it by name."
    )
    hidden_position: HiddenPosition = setting(
        default="predicting", help="Where in a response its hidden state is read (`geoalign.hidden`)."
    )
    hidden_layer: HiddenLayerSetting = setting(
        default=LAST, help="After which layer: its number, or a share of the depth; a list: several."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(default=0, help="Seed of the curator's draws.")
    rollout_fields: dict[str, str] = setting(
        default_factory=dict, help="answers, reference_rewards, true_rewards: names in the reward function's result."
    )


def parse_settings(section: Any) -> VerlSettings:
    """The settings from the plain data of the section `geoalign`; None: all defaults.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range.
    """
    place = "such as +geoalign.curator.type=geoalign"
    parsed: VerlSettings = read_section(VerlSettings, section, engine="verl", path=SECTION, place=place)
    return parsed
