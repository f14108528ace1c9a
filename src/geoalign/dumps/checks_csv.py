"""checks.csv: rollouts that an audit drew at random, and what a person or a verifier says of them.

A row says which rollout it is of (`step`, `line`, `sample`), and how it was drawn: `draw` is its place in the order of
drawing, from 1, `drawn_from` the number of rollouts with a reward, `seed` that of the draw. So an audit can draw again,
and tell a row that somebody added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas

from geoalign.dumps.flagged_csv import LABEL, ROW, safe
from geoalign.dumps.labelled_cells import Key, labelled_cells, whole_number_in
from geoalign.dumps.values import BadValueError, number
from geoalign.errors import InputError

NOTE = "note"
# Which verifier labelled a row; empty where a person did.
BY = "by"
_DRAWING = ("draw", "drawn_from", "seed")
_FACTS = (*_DRAWING, "step", "file", "line", "sample", "id", "group", "reward", "characters")
_TEXTS = ("answer", "final_answer", "prompt", "response")
_WANTED = (*_DRAWING, *ROW, LABEL)

RIGHT = "right"
WRONG = "wrong"
_WORDS = {RIGHT: True, "true": True, "correct": True, WRONG: False, "false": False, "incorrect": False}
# The rewards of labels are written to six digits, and so a label is one of them that differs by less.
_AS_WRITTEN = 1e-5
# What a person writes who cannot tell: no label.
_UNDECIDED = "?"
_EXPECTED = "right or wrong, true or false, 1 or 0, or a reward"

# A word says that the response is right or wrong, a number may be its true reward; None: nothing was filled in.
CheckLabel = bool | float | None


class CheckedRow(NamedTuple):
    """One row of the file: where it stands, which rollout it is of, its label, and its cells by column."""

    place: str
    rollout: Key
    label: CheckLabel
    cells: Mapping[str, str]


@dataclass(frozen=True)
class ChecksFile:
    """What a checks.csv holds.

    Attributes:
        seed: of the draw.
        drawn_from: from how many rollouts.
        rows: by their place in the order of drawing, from 1; some may have been deleted.
    """

    path: Path
    seed: int
    drawn_from: int
    rows: dict[int, CheckedRow]


def read_checks(path: Path) -> ChecksFile:
    """Reads the file as it comes back.

    Raises:
        InputError: it lacks a column, a cell cannot be read, or two rows are of one draw or of different draws' seeds.
    """
    rows: dict[int, CheckedRow] = {}
    draws: dict[tuple[int, int], str] = {}
    for rollout, place, cells in labelled_cells(path, columns=_WANTED):
        draw = whole_number_in(cells, "draw", place)
        if draw in rows:
            raise InputError(f"{place}: draw: {draw} is that of {rows[draw].place}, too; keep one")
        if draw < 1:
            raise InputError(f"{place}: draw: expected a number from 1, got {draw}")
        drawing = (whole_number_in(cells, "seed", place), whole_number_in(cells, "drawn_from", place))
        draws.setdefault(drawing, place)
        if len(draws) > 1:
            raise InputError(f"{place}: expected the seed and drawn_from of the first row, got another draw's")
        rows[draw] = CheckedRow(place=place, rollout=rollout, label=_label(cells, place), cells=cells)
    if not rows:
        raise InputError(f"{path}: expected rows that were drawn, got none")
    seed, drawn_from = next(iter(draws))
    if max(rows) > drawn_from or seed < 0:
        raise InputError(f"{path}: draw {max(rows)} of {drawn_from:,} rollouts, seed {seed}: there is no such draw")
    return ChecksFile(path=path, seed=seed, drawn_from=drawn_from, rows=rows)


def has_labels(path: Path) -> bool:
    """Whether a person has filled in a label; what cannot be read may have some."""
    try:
        return any(row.label is not None and not row.cells.get(BY) for row in read_checks(path).rows.values())
    except InputError:
        return True


def _label(cells: Mapping[str, str], place: str) -> CheckLabel:
    """What the label of a row says."""
    word = cells[LABEL].strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    if word == _UNDECIDED:
        return None
    try:
        value = number(LABEL, cells[LABEL])
    except BadValueError as error:
        raise InputError(f"{place}: {str(error).replace('a number', _EXPECTED)}") from None
    return None if math.isnan(value) else value


def is_right(label: bool | float, low: float, high: float, place: str) -> bool:
    """Whether a label says that the response is right.

    A number that is one of the two rewards, to the six digits in which labels are written, is the true reward.
    Otherwise 1 is right and 0 is wrong, unless one of them is a reward with the other meaning.

    Args:
        low: the reward of a refused response.
        high: the reward of an accepted one.
        place: where the label stands, for the message.

    Raises:
        InputError: the number is neither.
    """
    if isinstance(label, bool):
        return label
    for reward in (low, high):
        if math.isclose(label, reward, rel_tol=_AS_WRITTEN):
            return reward == high
    if label in (0, 1) and low != 1 and high != 0:
        return label == 1
    raise InputError(
        f"{place}: {LABEL}: expected {RIGHT} or {WRONG}, or a true reward, {low:g} or {high:g}, got {label:g}"
    )


def write_checks(path: Path, rows: pandas.DataFrame, *, redact: bool) -> None:
    """Writes rows in the order of drawing, in UTF-8 with a byte-order mark; no cell is a formula.

    Args:
        rows: the columns of the file; `label` is None where a row has none.
        redact: leaves the texts out.
    """
    columns = [*_FACTS, *([] if redact else _TEXTS), LABEL, NOTE, BY]
    cells: Any = rows.reindex(columns=columns).astype(object)
    cells = cells.map(lambda cell: safe(cell) if isinstance(cell, str) else cell)
    cells.to_csv(path, index=False, lineterminator="\r\n", encoding="utf-8-sig")
