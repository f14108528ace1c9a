"""Which steps a figure shows when it cannot show all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def first_middle_last(items: Sequence[Item]) -> list[Item]:
    """The first, middle and last item, each once: fewer than three where there are fewer."""
    places = sorted({0, (len(items) - 1) // 2, len(items) - 1}) if items else []
    return [items[place] for place in places]
