"""The section `geoalign` in the file of slime's `--custom-config-path`. Imports no torch and no slime."""

from __future__ import annotations

from typing import Any

from geoalign.adapters.sections import EngineSettings, read_section
from geoalign.settings import setting, settings

SECTION = "geoalign"


@settings
class SlimeSettings(EngineSettings):
    """What the section `geoalign` says."""

    hidden_key: str = setting(default="geoalign_hidden", help="Entry of Sample.metadata with the hidden state.")
    data_source: str | None = setting(
        default=None, help="Path of the data source to wrap; null: the one that --data-source-path has by default."
    )
    resume: bool = setting(
        default=True, help="Save the curator's state with checkpoints, and take it from that of --load."
    )


def parse_settings(section: Any) -> SlimeSettings:
    """The settings from the plain data of the section `geoalign`; None: all defaults.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range.
    """
    place = "in the file of --custom-config-path"
    parsed: SlimeSettings = read_section(SlimeSettings, section, engine="slime", path=SECTION, place=place)
    return parsed
