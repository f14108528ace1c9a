"""What stands at one place of dialogue data: pairs and prompts, and how many rows were left out for which reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from geoalign.errors import InputError
from geoalign.lab.tasks.base import PreferencePair, Problem
from geoalign.lab.tasks.chat import Messages
from geoalign.lab.tasks.decontaminate import exact
from geoalign.lab.tasks.hh_rows import REASONS, is_pair, length, read_pair, read_prompt
from geoalign.lab.tasks.sources import rows_of
from geoalign.shown import listed


@dataclass(frozen=True)
class DialogueReading:
    """Which rows are used: the first `limit` usable ones of each place, none longer than `max_characters`."""

    max_characters: int | None = None
    limit: int | None = None
    on_bad_row: Literal["skip", "error"] = "skip"


@dataclass(frozen=True)
class Item:
    """A usable row: its prompt, and the pair where it is one. `where` names it; `answer` is "" where none is known."""

    where: str
    prompt: Messages
    answer: str
    pair: PreferencePair | None


@dataclass
class DialogueFile:
    """The usable rows of one place in order, and the counts of the others."""

    place: str
    items: list[Item] = field(default_factory=list)
    rows: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def note(self) -> str:
        """What was left out and why; empty where everything was used."""
        parts = ", ".join(f"{self.skipped[reason]} {reason}" for reason in REASONS if self.skipped[reason])
        return f"{self.place}: {self.skipped.total()} of {self.rows} rows left out: {parts}" if parts else ""


def read_files(places: str | Sequence[str], how: DialogueReading | None = None, *, prompts: bool) -> list[DialogueFile]:
    """What stands at these places; `prompts`: rows that are prompts alone are welcome beside pairs.

    Rows are named by where they stand, and, of several places, by the place's number.

    Raises:
        ConfigError: nothing at a place that can be read (`rows_of`).
        InputError: a place without one usable row, or a bad row with `on_bad_row: error`.
    """
    given = (places,) if isinstance(places, str) else tuple(places)
    return [
        _read(place, "" if len(given) == 1 else f"file {number}, ", how or DialogueReading(), prompts=prompts)
        for number, place in enumerate(given, start=1)
    ]


def _read(place: str, prefix: str, how: DialogueReading, *, prompts: bool) -> DialogueFile:
    wanted = "a usable pair of dialogues or prompt" if prompts else "a usable pair of dialogues"
    found, first = DialogueFile(place), ""
    for where, row in rows_of(place):
        if how.limit is not None and len(found.items) == how.limit:
            break
        found.rows += 1
        first = first or listed(row)
        item, reason = _item(prefix + where, row, how, prompts=prompts)
        if item is not None:
            found.items.append(item)
            continue
        if how.on_bad_row == "error" and reason != "too long":
            raise InputError(f"{place}, {where}: expected {wanted}, got one that is {reason}")
        found.skipped[reason] += 1
    if not found.items:
        columns = f" with the columns {first}" if first else ""
        raise InputError(f"{place}: expected at least one row that is {wanted}, got none in {found.rows} rows{columns}")
    return found


def _item(where: str, row: Mapping[str, Any], how: DialogueReading, *, prompts: bool) -> tuple[Item | None, str]:
    if prompts and not is_pair(row):
        prompt, reason = read_prompt(row)
        answer = row.get("answer")
        item = None if prompt is None else Item(where, prompt, answer if isinstance(answer, str) else "", None)
        replies: tuple[str, ...] = ()
    else:
        pair, reason = read_pair(row)
        item = None if pair is None else Item(where, pair.prompt, pair.chosen, pair)
        replies = () if pair is None else (pair.chosen, pair.rejected)
    most = how.max_characters
    if item is not None and most is not None and length(item.prompt, *replies) > most:
        return None, "too long"
    return item, reason


def load_dialogue_prompts(
    places: str | Sequence[str], how: DialogueReading | None = None
) -> tuple[list[Problem], list[str]]:
    """The different prompts of an evaluation set such as `helpful`, from one place or several, with what is to be said.

    Raises:
        ConfigError, InputError: as `read_files`.
    """
    files = read_files(places, how, prompts=True)
    problems = different_prompts([item for file in files for item in file.items])
    return problems, [note for file in files if (note := file.note())]


def different_prompts(items: Sequence[Item]) -> list[Problem]:
    """One problem for each different prompt, in the order of first appearance, named by where that is."""
    found: dict[object, Problem] = {}
    for item in items:
        found.setdefault(exact(item.prompt), Problem(item.where, item.prompt, item.answer))
    return list(found.values())
