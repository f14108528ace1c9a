"""The labels of one call of `geoalign curate`, given to the rollouts that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from geoalign.errors import InputError
from geoalign.lab.dumps.labels import LabelledRow, read_labels
from geoalign.lab.dumps.reading import Dump
from geoalign.lab.dumps.rows import Row
from geoalign.lab.store.curation_tables import safe
from geoalign.lab.tasks.rows import row_name
from geoalign.shown import shown


class Labels:
    """Finds the rollout of every row with a label.

    A row is found by `step`, `line` and `sample`; the text of its response, or else its length, has to be that of the
    rollout where the file has it, so that the labels of another dump are not taken for those of this one.

    Raises:
        ConfigError, InputError: as `read_labels`; or a rollout is labelled in two files.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._waiting: dict[tuple[int, int, int], LabelledRow] = {}
        self._rows = 0
        for row in (row for path in files for row in read_labels(path)):
            self._rows += 1
            if row.label is None:
                continue
            earlier = self._waiting.setdefault(row.key, row)
            if earlier is not row:
                raise InputError(f"{row.place}: expected one label a rollout, got another one than in {earlier.place}")
        self._labels = len(self._waiting)

    def applied(self, dump: Dump, number: int) -> Dump:
        """The dump with its labels; `number` is its step where it names none.

        Raises:
            InputError: a label is of another response than the rollout's.
        """
        if not self._waiting:
            return dump
        return replace(dump, rows=tuple(self._labelled(dump, row, number) for row in dump.rows))

    def check_all_found(self) -> None:
        """Raises InputError where a label is of no rollout of the dumps that were read."""
        for row in self._waiting.values():
            step, line, sample = row.key
            raise InputError(f"{row.place}: expected a rollout of these dumps, got step {step}, line {line}, sample "
                             f"{sample}, which none of them has")  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """What `summary.json` says of the labels."""
        files = [str(path) for path in self._files]
        return {"files": files, "labelled": self._labels, "without_label": self._rows - self._labels}

    def _labelled(self, dump: Dump, row: Row, number: int) -> Row:
        key = (number if row.step is None else row.step, row.line, row.sample)
        if key not in self._waiting:
            return row
        label = self._waiting.pop(key)
        own = {"response": safe(row.response), "characters": str(len(row.response))}
        for name, expected in own.items():
            if name in label.cells:
                got = label.cells[name]
                if got.replace("\r\n", "\n") != expected:
                    raise InputError(
                        f"{label.place}: {name}: expected that of {row_name(dump.path, row.line)}, "
                        f"{shown(expected, 60)}, got {shown(got, 60)}: are the labels of another dump?"
                    )
                break
        return replace(row, label=label.label)
