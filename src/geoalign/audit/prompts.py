"""Prompts from where they differ: what all of them begin with, such as a system prompt, tells a reader nothing."""

from __future__ import annotations

# A beginning of so many characters, or fewer, is left: it helps to read the rest.
_SHORT = 20
# The end of a line or sentence may lie so many characters before the place where prompts begin to differ.
_BEFORE = 40


def common_beginning(first: str, last: str) -> str:
    """What all prompts begin with, up to the end of a line, sentence or word; empty where it is short.

    Args:
        first, last: the first and the last prompt in alphabetical order: what both begin with, all do.
    """
    if first == last:
        return ""
    differ = (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    common = first[: next(differ, len(first))]
    place = max(common.rfind("\n") + 1, common.rfind(". ") + 2, common.rfind(": ") + 2)
    if place < len(common) - _BEFORE:
        place = max(place, common.rfind(" ") + 1)
    return common[:place] if place > _SHORT else ""


def without_beginning(prompt: str, common: str) -> str:
    """A prompt without what all begin with, and with an ellipsis in its place; whole where nothing else is in it."""
    rest = prompt.removeprefix(common)
    return f"…{rest}" if common and rest.strip() else prompt
