"""The settings of a curated `swift rlhf`, from a YAML file. Imports no torch and no ms-swift."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from geoalign.adapters.sections import read_section
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.settings import setting, settings
from geoalign.settings.hidden import LAST, HiddenLayerSetting, HiddenPosition
from geoalign.settings.locations import Locations
from geoalign.settings.yaml_text import read_yaml

# The environment variable that names the YAML file where a plug-in file names none.
VARIABLE = "GEOALIGN_SWIFT"


@settings
class SwiftSettings:
    """What the YAML file says."""

    curator: CuratorSection = setting(
        default_factory=default_curator, help="Settings of the curator: a section with its `type`, or a name alone."
    )
    hidden_position: HiddenPosition = setting(
        default="predicting", help="Where in a response its hidden state is read (`geoalign.hidden`)."
    )
    hidden_layer: HiddenLayerSetting = setting(
        default=LAST, help="After which layer: its number, or a share of the depth; a list: several."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(default=0, help="Seed of the curator's draws.")
    rollout_fields: dict[str, str] = setting(
        default_factory=dict,
        help="answers, reference_rewards, true_rewards: columns of the data set, or module:function of the rows.",
    )


def read_settings(given: str | Path | Mapping[str, Any]) -> SwiftSettings:
    """The settings from a YAML file, or from plain data.

    Raises:
        ConfigError: no such file, an unknown key (with the nearest known one), or a value out of range.
    """
    if isinstance(given, Mapping):
        plain, written = dict(given), Locations()
    else:
        plain, by_key = read_yaml(Path(given))
        written = Locations(by_key)
    parsed: SwiftSettings = read_section(SwiftSettings, plain, engine="ms-swift", locations=written)
    return parsed
