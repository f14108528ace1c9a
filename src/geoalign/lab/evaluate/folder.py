"""The folder of an evaluation: what its rows depend on, the rows in parquet files, and the results.

A row is known by (model, set, id, sample), whatever file it stands in, and a file is there as a whole or not at all. So
an evaluation goes on with another batch size, more samples, more problems, further sets and further models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from geoalign.errors import ConfigError, RunFolderError
from geoalign.files.columns import whole_text
from geoalign.files.json_files import read_json, write_json
from geoalign.lab.data.task import EvaluationSet
from geoalign.lab.models.rows import SCHEMA, ResponseRow, messages_json, write_rows
from geoalign.lab.runs.resuming import SETTINGS, check_empty, check_same
from geoalign.text import one_line

# 1 and 2: rows lay in folders named by model and set, and knew no reasons.
SCHEMA_VERSION = 3


@dataclass(frozen=True)
class Recorded:
    """What the rows of a folder depend on, and what the last command asked for, as `settings.json` holds it.

    Attributes:
        settings: what counts for every row.
        models: by name, what counts for the rows of a model.
        sets: by name, what counts for the rows of a set.
        asked: how many responses of each model to each set the last command asked for.
    """

    settings: Mapping[str, Any]
    models: Mapping[str, Mapping[str, Any]]
    sets: Mapping[str, Mapping[str, Any]]
    asked: Mapping[str, Mapping[str, int]]


class EvaluationFolder:
    """The files of one evaluation, which grows: rows are added, none is ever changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = root / SETTINGS
        self.rows = root / "rows"
        self.result = root / "results.json"

    def started(self) -> bool:
        return self.settings.is_file()

    def recorded(self) -> Recorded | None:
        """What the rows that are there depend on; None in a folder without an evaluation."""
        if not self.started():
            return None
        data = read_json(self.settings)
        version = data.pop("schema_version", None)
        if version != SCHEMA_VERSION:
            raise RunFolderError(
                f"{self.root}: this evaluation was made by another version of geoalign (schema_version {version}, not "
                f"{SCHEMA_VERSION}), which keeps its rows in another form: take another --output"
            )
        return Recorded(**data)

    def begin(self, now: Recorded, sets: Sequence[EvaluationSet], *, resume: bool) -> Recorded:
        """Makes the folder that of an evaluation, or checks that its rows were made under the same settings and from
        the same problems.

        Models and sets that are new are added to `settings.json` before any of their rows is there.

        Returns:
            All that the rows of the folder depend on, those of other models and sets included.
        """
        then = self.recorded()
        if then is None:
            check_empty(self.root, "evaluation")
            self._write(now)
            return now
        if not resume:
            raise RunFolderError(f"{self.root}: expected an empty folder, got an evaluation: add --resume to resume it")
        check_same(now.settings, then.settings, self.root, kind="evaluation")
        for name, settings in now.models.items():
            if name in then.models:
                check_same(settings, then.models[name], self.root, kind="evaluation", key=f"models.{name}.")
        for name, settings in now.sets.items():
            if name in then.sets:
                check_same(settings, then.sets[name], self.root, kind="evaluation", key=f"sets.{name}.")
        self._check_same_problems(sets)
        grown = Recorded(
            settings=then.settings,
            models={**then.models, **now.models},
            sets={**then.sets, **now.sets},
            asked=now.asked,
        )
        self._write(grown)
        return grown

    def _check_same_problems(self, sets: Sequence[EvaluationSet]) -> None:
        """Refuses a set some of whose problems are others than those that the rows of the folder answer."""
        rows = self._read(["set", "id", "prompt", "answer"])
        there = {(row["set"], row["id"]): (row["prompt"], row["answer"]) for row in rows}
        for evaluation_set in sets:
            for problem in evaluation_set.problems:
                now = (messages_json(problem.prompt), whole_text(problem.answer))
                if there.get((evaluation_set.name, problem.id), now) != now:
                    raise ConfigError(
                        f"{evaluation_set.name}: {problem.id} has another prompt or answer than the rows in {self.root}"
                        ": take the same files as before, or take another --output"
                    )

    def _write(self, recorded: Recorded) -> None:
        write_json(self.settings, {"schema_version": SCHEMA_VERSION, **asdict(recorded)})

    def add(self, rows: Sequence[ResponseRow]) -> None:
        """Writes rows into a file of their own, behind the last one."""
        parts = self._parts()
        number = 1 + int(parts[-1].stem.removeprefix("part-")) if parts else 0
        write_rows(self.rows / f"part-{number:06d}.parquet", rows)

    def rows_of(self, model: str) -> list[ResponseRow]:
        """The rows of a model on every set."""
        return [ResponseRow(**row) for row in self._read(SCHEMA.names, model=model)]

    def counts(self) -> Counter[tuple[str, str]]:
        """How many responses there are, by model and set."""
        return Counter((row["model"], row["set"]) for row in self._read(["model", "set"]))

    def _read(self, columns: list[str], *, model: str | None = None) -> list[dict[str, Any]]:
        """These columns of the rows that are there, of one model or of all."""
        rows: list[dict[str, Any]] = []
        for part in self._parts():
            try:
                filters = None if model is None else [("model", "==", model)]
                rows += pyarrow.parquet.read_table(part, columns=columns, filters=filters).to_pylist()
            except (pyarrow.ArrowException, OSError) as error:
                raise RunFolderError(
                    f"{part}: expected rows of an evaluation, got {one_line(error)}; "
                    "delete this file, and --resume generates its responses again"
                ) from error
        return rows

    def _parts(self) -> list[Path]:
        """The files of rows in their order, without files that a kill left half written."""
        return sorted(self.rows.glob("part-*.parquet"))

    def write_result(self, settings: Mapping[str, Any], versions: Mapping[str, str], scores: Mapping[str, Any]) -> None:
        """Writes `results.json`: the scores of a command, under which settings and versions of packages."""
        write_json(
            self.result, {"schema_version": SCHEMA_VERSION, "settings": settings, "versions": versions, **scores}
        )
