"""Problems that stand twice in training, contradict each other, or stand in an evaluation set too."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass

from geoalign.lab.rewards.answers import quick_verdict
from geoalign.lab.tasks.chat import Messages

# Texts of one problem often differ at the end, so only so many first letters and digits are compared.
COMPARED_CHARACTERS = 150

# Everything that is neither letter nor digit, of any script.
_OTHER = re.compile(r"[\W_]+")


def fingerprint(prompt: Messages) -> str:
    """The first 150 letters and digits of a prompt in lower case, without its system message.

    What remains the same under another layout or ending; different problems may share it where they begin alike.
    """
    text = "".join(message["content"] for message in prompt if message["role"] != "system")
    return _OTHER.sub("", text.lower())[:COMPARED_CHARACTERS]


def exact(prompt: Messages) -> Hashable:
    """A key that two prompts share where they are the same in every character."""
    return tuple((message["role"], message["content"]) for message in prompt)


def same_answer(answer: str, other: str) -> bool:
    """Whether two gold answers plainly agree: equal texts, or one integer (025, 25.0). Else they are in conflict."""
    return quick_verdict(answer, other) is True


@dataclass(frozen=True)
class Duplicates:
    """Rows that stand more than once: `groups` of their numbers in order; `conflicting`: those whose answers differ."""

    groups: tuple[tuple[int, ...], ...]
    conflicting: tuple[tuple[int, ...], ...]

    @property
    def rows_in_conflict(self) -> int:
        """How many rows stand in a conflicting group."""
        return sum(map(len, self.conflicting))

    @property
    def later_rows(self) -> int:
        """How many rows stand before already, conflicting groups included."""
        return sum(map(len, self.groups)) - len(self.groups)


def find_duplicates(
    keys: Sequence[Hashable], answers: Sequence[str], agree: Callable[[str, str], bool] = same_answer
) -> Duplicates:
    """The groups of equal keys, in the order of their first rows; conflicting where an answer differs from the first.

    No rows: no groups.
    """
    rows_of: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        rows_of.setdefault(key, []).append(row)
    groups = tuple(tuple(rows) for rows in rows_of.values() if len(rows) > 1)
    conflicting = tuple(
        rows for rows in groups if not all(agree(answers[rows[0]], answers[later]) for later in rows[1:])
    )
    return Duplicates(groups, conflicting)


def count_shared(evaluation: Sequence[str], training: Collection[str]) -> int:
    """How many evaluation fingerprints stand in training too; an empty one (no letter, no digit) is never shared."""
    return sum(bool(text) and text in training for text in evaluation)


@dataclass(frozen=True)
class Kept:
    """What is left for training (`rows`, in order), and how many rows went for which reason, each row counted once."""

    rows: tuple[int, ...]
    conflicting: int
    repeated: int
    evaluated: int


def keep(duplicates: Duplicates, fingerprints: Sequence[str], evaluation: Collection[str]) -> Kept:
    """Drops conflicting groups whole, of another group all but the first row, and rows that an evaluation set has."""
    conflicting = {row for rows in duplicates.conflicting for row in rows}
    repeated = {row for rows in duplicates.groups for row in rows[1:]} - conflicting
    left = [row for row in range(len(fingerprints)) if row not in conflicting and row not in repeated]
    rows = tuple(row for row in left if not fingerprints[row] or fingerprints[row] not in evaluation)
    return Kept(rows, len(conflicting), len(repeated), len(left) - len(rows))


def duplicates_note(source: str, rows: int, duplicates: Duplicates, what: str) -> list[str]:
    """A line on duplicates for a report; none where there are none. `what`: "prompts", "pairs"."""
    if not duplicates.groups:
        return []
    return [
        f"{source}: {len(duplicates.groups)} {what} stand there more than once ({duplicates.later_rows} of {rows} rows "
        f"stand before), {len(duplicates.conflicting)} of them with conflicting answers "
        f"({duplicates.rows_in_conflict} rows)"
    ]


def kept_note(source: str, rows: int, kept: Kept, what: str) -> list[str]:
    """A line on what was dropped; none where nothing was."""
    if len(kept.rows) == rows:
        return []
    return [
        f"{source}: {rows - len(kept.rows)} of {rows} {what} dropped: {kept.repeated} stand before, {kept.conflicting} "
        f"conflict with another, {kept.evaluated} stand in an evaluation set; {len(kept.rows)} left"
    ]
