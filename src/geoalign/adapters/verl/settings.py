"""The settings under `+geoalign` of verl's own configuration. Imports no torch and no verl."""

from __future__ import annotations

from typing import Any

from geoalign.adapters.sections import StateSettings, read_section
from geoalign.settings import settings

SECTION = "geoalign"


@settings
class VerlSettings(StateSettings):
    """What `+geoalign` says."""


def parse_settings(section: Any) -> VerlSettings:
    """The settings from the plain data of the section `geoalign`; None: all defaults.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range.
    """
    place = "such as +geoalign.curator.type=geoalign"
    parsed: VerlSettings = read_section(VerlSettings, section, engine="verl", path=SECTION, place=place)
    return parsed
