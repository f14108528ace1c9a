"""Where every setting was written, so that an error can point at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Locations:
    """Where each dotted key of the settings was written: a file and line, or the words of the command line."""

    by_key: Mapping[str, str] = field(default_factory=dict)

    def location_of(self, key: str) -> str:
        """The location of a dotted key, or of the nearest section around it; empty where it was written nowhere."""
        while key and key not in self.by_key:
            key = key.rpartition(".")[0]
        return self.by_key.get(key, "")

    def prefix(self, key: str) -> str:
        """The location followed by a colon and a space, ready to stand before a message; empty where unknown."""
        location = self.location_of(key)
        return f"{location}: " if location else ""


# Of settings that no file holds.
NOWHERE = Locations()


def dotted(*parts: str) -> str:
    """The dotted key out of its parts, sections and names; a section at the top is empty, and left out."""
    return ".".join(part for part in parts if part)
