"""True rewards that people gave: a `flagged.csv` as it comes back, labels of a dump, a training's labelled rollouts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from geoalign.curators.labelled_rollouts import LabelledRollouts
from geoalign.dumps.csv_rows import csv_header
from geoalign.dumps.flagged_csv import LABEL, ROW, restored
from geoalign.dumps.labelled_cells import Key, check_is_of, labelled_cells
from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import Dump, read_dump
from geoalign.dumps.row_files import CSV_SUFFIXES
from geoalign.dumps.row_names import row_name
from geoalign.dumps.values import BadValueError, number
from geoalign.errors import ConfigError, InputError
from geoalign.text import listed

# What a CSV file of labels has, and no dump.
_WANTED = (*ROW, LABEL)
_TEXTS = ("group", "prompt", "response")


class LabelledRow(NamedTuple):
    """One row of such a file: where it stands, its true reward (None: nobody filled it in), its cells by column."""

    place: str
    label: float | None
    cells: Mapping[str, str]


def read_labels(path: Path) -> dict[Key, LabelledRow]:
    """The rows of a file of labels by the rollouts that they are of.

    Raises:
        ConfigError: there is no such file.
        InputError: it lacks a column, a cell is no number, or two rows are of one rollout.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: expected a flagged.csv with labels, got none there")
    rows: dict[Key, LabelledRow] = {}
    for key, place, cells in labelled_cells(path, columns=_WANTED):
        try:
            label = number(LABEL, cells[LABEL])
        except BadValueError as error:
            raise InputError(f"{place}: {error}") from None
        if key in rows:
            raise InputError(f"{place}: a second row for the rollout of {rows[key].place}; keep one")
        rows[key] = LabelledRow(place=place, label=None if math.isnan(label) else label, cells=cells)
    return rows


class Labels:
    """The labels of one audit, given to the rollouts that they are of.

    A row is found by `step`, `line` and `sample`; the text of its response, or else its length, has to be that of the
    rollout where the file has it, so that the labels of another dump are not taken for those of this one.

    Attributes:
        summary: what `summary.json` says of them.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._waiting: dict[Key, LabelledRow] = {}
        without_label = 0
        for path in files:
            for key, row in read_labels(path).items():
                if row.label is None:
                    without_label += 1
                elif key in self._waiting:
                    raise InputError(
                        f"{row.place}: a second label for the rollout of {self._waiting[key].place}; keep one"
                    )
                else:
                    self._waiting[key] = row
        self.summary = {
            "files": [str(path) for path in files],
            "labelled": len(self._waiting),
            "without_label": without_label,
        }

    def apply(self, dump: Dump) -> None:
        """Fills the column `label` of a dump; InputError where a label is of another response than the rollout's."""
        if not self._waiting:
            return
        keys = dump.frame[list(ROW)].itertuples(index=False, name=None)
        for place, key in enumerate(keys):
            row = self._waiting.pop(key, None)
            if row is not None:
                check_is_of(row.cells, row.place, row_name(dump.path, key[1]), dump.frame["response"][place])
                dump.frame.loc[place, "label"] = row.label

    def check_all_found(self) -> None:
        """Raises InputError where a label is of no rollout of the dumps that were read."""
        for key, row in self._waiting.items():
            rollout = ", ".join(f"{name} {value}" for name, value in zip(ROW, key, strict=True))
            raise InputError(f"{row.place}: no dump has a rollout of {rollout}: are the labels of another dump?")


def read_labelled_rollouts(path: str | Path) -> LabelledRollouts:
    """The labelled rollouts in a file: every rollout of a dump in any known format, or the labelled rows of a
    flagged.csv, which has a column `label`.

    A dump's true rewards (`true_reward`) come before its rewards, which may have been corrupted on purpose.
    Prompts that a dump keeps as the model read them stay texts; others become chat messages, a text one of the user.
    """
    path = Path(path).expanduser()
    is_labels = path.name.endswith(CSV_SUFFIXES) and path.is_file() and LABEL in csv_header(path)
    columns = _columns_of_labels(path) if is_labels else _columns_of_dump(path)
    try:
        return LabelledRollouts(**columns)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _columns_of_labels(path: Path) -> dict[str, Any]:
    """The fields of `LabelledRollouts` from the labelled rows of a flagged.csv; the others are left out."""
    rows = read_labels(path).values()
    for row in rows:
        if not set(_TEXTS) <= set(row.cells):
            raise InputError(f"{path}, line 1: expected the columns {', '.join(_TEXTS)}, got {listed(row.cells)}")
    labelled = [row for row in rows if row.label is not None]
    texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
    for row in labelled:
        for name in _TEXTS:
            text = restored(row.cells[name])
            if text is None:
                raise InputError(f"{row.place}: {name}: expected the whole text, got one that was cut to fit its cell")
            texts[name].append(text)
    return {
        "prompts": [_question(text) for text in texts["prompt"]],
        "responses": texts["response"],
        "rewards": [row.label for row in labelled],
        "groups": texts["group"],
    }


def _columns_of_dump(path: Path) -> dict[str, Any]:
    """The fields of `LabelledRollouts` from every rollout of a dump, all of which have to have a reward."""
    layout, _ = find_layout(path)
    for role in ("prompt", "response"):
        if role not in layout.fields:
            raise ConfigError(f"{path}: {role}: expected a field of it, got a dump without")
    frame = read_dump(path, layout).frame
    rewards = frame["true_reward"].fillna(frame["reward"])
    if rewards.isna().any():
        line = frame["line"][rewards.isna()].iloc[0]
        raise InputError(f"{row_name(path, line)}: reward: expected the true reward of a labelled rollout, got none")
    prompts = frame["prompt"].tolist()
    if not layout.format.rendered or frame["messages"].notna().any():
        prompts = [messages or _question(text) for messages, text in zip(frame["messages"], prompts, strict=True)]
    return {
        "prompts": prompts,
        "responses": frame["response"].tolist(),
        "rewards": rewards.tolist(),
        "groups": list(zip(frame["step"], frame["group"], strict=True)),
        "answers": frame["final_answer"].tolist() if frame["final_answer"].notna().any() else None,
        "truncated": [flag is True for flag in frame["truncated"]],
    }


def _question(text: str) -> tuple[dict[str, str], ...]:
    """A prompt that is a text as the message of a user."""
    return ({"role": "user", "content": text},)
