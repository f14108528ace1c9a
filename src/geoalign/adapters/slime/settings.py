"""The section `geoalign` in the file of slime's `--custom-config-path`. Imports no torch and no slime."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from geoalign.adapters.sections import read_section
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.settings import setting, settings

SECTION = "geoalign"


@settings
class SlimeSettings:
    """What the section `geoalign` says."""

    curator: CuratorSection = setting(
        default_factory=default_curator, help="Settings of the curator; `type` picks it by name."
    )
    hidden_key: str = setting(default="geoalign_hidden", help="Entry of Sample.metadata with the hidden state.")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(default=0, help="Seed of the curator's draws.")
    data_source: str | None = setting(
        default=None, help="Path of the data source to wrap; null: the one that --data-source-path has by default."
    )
    resume: bool = setting(
        default=True, help="Save the curator's state with checkpoints, and take it from that of --load."
    )
    rollout_fields: dict[str, str] = setting(
        default_factory=dict,
        help="answers, reference_rewards, true_rewards: entries of Sample.metadata, or of a reward that is a dict.",
    )


def parse_settings(section: Any) -> SlimeSettings:
    """The settings from the plain data of the section `geoalign`; None: all defaults.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range.
    """
    place = "in the file of --custom-config-path"
    parsed: SlimeSettings = read_section(SlimeSettings, section, engine="slime", path=SECTION, place=place)
    return parsed
