"""True rewards that people gave: a `flagged.csv` as it comes back, labels of a dump, a training's labelled rollouts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from geoalign.curators.labelled_rollouts import LabelledRollouts
from geoalign.dumps.flagged_csv import LABEL, ROW, restored, safe
from geoalign.dumps.formats import find_layout
from geoalign.dumps.reading import Dump, read_dump
from geoalign.dumps.row_files import CSV_SUFFIXES, csv_header, csv_rows
from geoalign.dumps.row_names import row_name
from geoalign.dumps.values import BadValueError, number
from geoalign.errors import ConfigError, InputError
from geoalign.text import listed, quote

# What a CSV file of labels has, and no dump.
_WANTED = (*ROW, LABEL)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_TEXTS = ("group", "prompt", "response")

# Which rollout a row is of: its step, its line in the dump, its number among the responses to its prompt.
Key = tuple[int, ...]


class LabelledRow(NamedTuple):
    """One row of such a file: where it stands, its true reward (None: nobody filled it in), its cells by column."""

    place: str
    label: float | None
    cells: dict[str, str]


def read_labels(path: Path) -> dict[Key, LabelledRow]:
    if not path.is_file():
        raise ConfigError(f"{path}: expected a flagged.csv with labels, got none there")
    found: dict[Key, LabelledRow] = {}
    for place, cells in _rows(path):
        try:
            key, row = tuple(_whole(name, cells[name]) for name in ROW), LabelledRow(place, _label(cells[LABEL]), cells)
        except BadValueError as error:
            raise InputError(f"{place}: {error}") from None
        if found.setdefault(key, row) is not row:
            raise InputError(f"{place}: expected each rollout once, got the one of {found[key].place} again")
    return found


class Labels:
    """The labels of one audit, given to the rollouts that they are of.

    A row is found by `step`, `line` and `sample`; the text of its response, or else its length, has to be that of the
    rollout where the file has it, so that the labels of another dump are not taken for those of this one.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._waiting: dict[Key, LabelledRow] = {}
        rows = [item for path in files for item in read_labels(path).items()]
        for key, row in rows:
            if row.label is not None and (earlier := self._waiting.setdefault(key, row)) is not row:
                raise InputError(f"{row.place}: expected one label a rollout, got another one than in {earlier.place}")
        labels = len(self._waiting)
        # What `summary.json` says of them.
        self.summary = {"files": [*map(str, files)], "labelled": labels, "without_label": len(rows) - labels}

    def apply(self, dump: Dump) -> None:
        """Fills the column `label` of a dump; InputError where a label is of another response than the rollout's."""
        frame = dump.frame
        for at, key in enumerate(zip(*(frame[name] for name in ROW), strict=True) if self._waiting else ()):
            if (row := self._waiting.pop(key, None)) is not None:
                response = frame["response"][at]
                own = {"response": safe(response), "characters": str(len(response))}
                name = next((name for name in own if name in row.cells), None)
                if name is not None and row.cells[name].replace("\r\n", "\n") != own[name]:
                    raise InputError(
                        f"{row.place}: {name}: expected that of {row_name(dump.path, key[1])}, "
                        f"{quote(own[name], 60)}, got {quote(row.cells[name], 60)}: are the labels of another dump?"
                    )
                frame.loc[at, "label"] = row.label

    def check_all_found(self) -> None:
        """Raises InputError where a label is of no rollout of the dumps that were read."""
        for key, row in self._waiting.items():
            got = ", ".join(f"{name} {value}" for name, value in zip(ROW, key, strict=True))
            raise InputError(f"{row.place}: expected a rollout of these dumps, got {got}, which none of them has")


def read_labelled_rollouts(path: str | Path) -> LabelledRollouts:
    """The labelled rollouts in a file: every rollout of a dump in any known format, or the labelled rows of a
    flagged.csv, which has a column `label`.

    A dump's true rewards (`true_reward`) come before its rewards, which may have been corrupted on purpose.
    Prompts that a dump keeps as the model read them stay texts; others become chat messages, a text one of the user.
    """
    path = Path(path).expanduser()
    labels = path.name.endswith(CSV_SUFFIXES) and path.is_file() and LABEL in csv_header(path)
    columns = _columns_of_labels(path) if labels else _columns_of_dump(path)
    try:
        return LabelledRollouts(**columns)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _columns_of_labels(path: Path) -> dict[str, Any]:
    rows = list(read_labels(path).values())
    if rows and not set(_TEXTS) <= set(rows[0].cells):
        raise InputError(f"{path}, line 1: expected the columns {', '.join(_TEXTS)}, got {listed(rows[0].cells)}")
    labelled = [row for row in rows if row.label is not None]
    texts = {name: [restored(row.cells[name]) for row in labelled] for name in _TEXTS}
    for name, column in texts.items():
        if None in column:
            place = labelled[column.index(None)].place
            raise InputError(f"{place}: {name}: expected the whole text, got one that was cut to fit its cell")
    columns = {"responses": texts["response"], "rewards": [row.label for row in labelled], "groups": texts["group"]}
    return {**columns, "prompts": [_asked(text) for text in texts["prompt"]]}


def _columns_of_dump(path: Path) -> dict[str, Any]:
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
        prompts = [messages or _asked(text) for messages, text in zip(frame["messages"], prompts, strict=True)]
    columns = {"prompts": prompts, "responses": frame["response"].tolist(), "rewards": rewards.tolist()}
    columns |= {"answers": frame["final_answer"].tolist()} if frame["final_answer"].notna().any() else {}
    groups = list(zip(frame["step"], frame["group"], strict=True))
    return {**columns, "groups": groups, "truncated": [flag is True for flag in frame["truncated"]]}


def _asked(text: str | None) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": text or ""},)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows below the header, each with its place; rows without a single cell are passed over."""
    header = csv_header(path)
    if not set(_WANTED) <= set(header):
        raise InputError(f"{path}, line 1: expected the columns {', '.join(_WANTED)}, got {listed(header)}")
    for raw in csv_rows(path):
        place = row_name(path, raw.line)
        if raw.value is None:
            raise InputError(f"{place}: {raw.problem}")
        yield place, {name: str(cell) for name, cell in raw.value.items()}


def _whole(name: str, cell: str) -> int:
    if not _WHOLE.fullmatch(cell.strip()):
        raise BadValueError(name, "a whole number", quote(cell, 40))
    return int(cell)


def _label(cell: str) -> float | None:
    text = cell.strip()
    if text and not _NUMBER.fullmatch(text):
        raise BadValueError(LABEL, "a number, such as 0 or 0.5, or nothing", quote(cell, 40))
    return number(LABEL, float(text)) if text else None
