"""Prompts from where they differ: what all of them begin with, such as a system prompt, tells a reader nothing."""

from __future__ import annotations

import pyarrow.compute

from geoalign.audit.folder import SCORES_FILE
from geoalign.audit.results import AuditResults
from geoalign.files.columns import batches

# A beginning of so many characters, or fewer, is left: it helps to read the rest.
_SHORT = 20
# The end of a line or sentence may lie so many characters before the place where prompts begin to differ.
_BEFORE = 40


def common_beginning(audit: AuditResults) -> str:
    """What all prompts begin with, up to the end of a line, sentence or word; empty where it is short."""
    if audit.redacted:
        return ""
    first, last = _ends(audit)
    if first == last:
        return ""
    differ = (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    common = first[: next(differ, len(first))]
    places = [common.rfind("\n") + 1, common.rfind(". ") + 2, common.rfind(": ") + 2]
    place = max(places)
    if place < len(common) - _BEFORE:
        place = max(place, common.rfind(" ") + 1)
    return common[:place] if place > _SHORT else ""


def without_beginning(prompt: str, common: str) -> str:
    """A prompt without what all begin with, and with an ellipsis in its place; whole where nothing else is in it."""
    rest = prompt.removeprefix(common)
    return f"…{rest}" if common and rest.strip() else prompt


def _ends(audit: AuditResults) -> tuple[str, str]:
    """The first and the last prompt in alphabetical order: what these begin with, all do."""
    found: list[str] = []
    for batch in batches(audit.folder / SCORES_FILE, ["prompt"]):
        ends = pyarrow.compute.min_max(batch["prompt"]).as_py()
        found = [text for text in (*found, ends["min"], ends["max"]) if text is not None]
        found = [min(found), max(found)] if found else []
    return (found[0], found[1]) if found else ("", "")
