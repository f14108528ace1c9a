"""What only some engines carry out, refused by name in the settings of the others. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geoalign.errors import ConfigError


def refuse_anchors(section: Mapping[str, Any], key: str, engine: str) -> None:
    """Raises ConfigError where the settings of an engine that cannot show anchors to a curator name some."""
    if section.get("anchors") is not None:
        raise ConfigError(
            f"{key}: expected to be left out, got a value: inside {engine} no anchors can be shown to a curator, "
            "inside TRL they can (geoalign.adapters.trl)"
        )
