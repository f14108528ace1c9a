"""The settings of a curated `swift rlhf`, from a YAML file. Imports no torch and no ms-swift."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.adapters.sections import StateSettings, read_section
from geoalign.settings import settings
from geoalign.settings.locations import Locations
from geoalign.settings.yaml_text import read_yaml

# The environment variable that names the YAML file where a plug-in file names none.
VARIABLE = "GEOALIGN_SWIFT"


@settings
class SwiftSettings(StateSettings):
    """What the YAML file says."""


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
