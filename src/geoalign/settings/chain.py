"""The settings of `Chain`: those of its members, in order."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from geoalign.settings.curators import settings


@settings
class ChainConfig:
    """Curators one after the other; in YAML `members` is a list of `curator:` sections, each with its `type`."""

    members: tuple[Any, ...] = field(
        default=(), metadata={"help": "Settings of the members in order; none: nothing is changed."}
    )
