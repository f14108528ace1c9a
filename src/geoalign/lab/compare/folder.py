"""The folder of one comparison: its paths, and the results of its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, RunFolderError
from geoalign.files.durable import HALF_WRITTEN, LOCK, remove_folder, write_atomically
from geoalign.files.json_files import finite, read_json, write_json
from geoalign.lab.compare.plan import CellKey, PlannedRun, planned_cells, settings_without_output
from geoalign.lab.compare.read_settings import parse_compare_config
from geoalign.lab.compare.settings import KINDS, BaseOfTables, CompareConfig, CuratorName
from geoalign.lab.rewards.settings import RewardConfig
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.resuming import check_same_settings, first_difference, package_versions
from geoalign.lab.train.settings import DEFAULT_TYPES
from geoalign.settings.layers import flat, merged_settings
from geoalign.settings.loading import plain_settings
from geoalign.settings.yaml_text import dump_yaml, read_yaml

SCHEMA_VERSION = 1
# Below the folder of results, by level and arm.
RESULT_FILES = "*/*/seed-*.json"
# All of them in one file: what is committed or sent.
COMPACT = "results.parquet"


class ComparisonFolder:
    """Paths of a comparison's folder, and its results (schema version 1)."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.config = self.root / "compare.yaml"
        self.versions = self.root / "versions.json"
        # The run folder of the base run's warm start; others lie beside it (`warm_start`).
        self.shared = self.root / "shared"
        self.shared_log = self.root / "shared.log"
        self.checked = self.root / "checked.json"
        self.prepared = self.root / "prepared.json"
        self.table = self.root / "table.json"
        self.results = self.root / "results"
        self.runs = self.root / "runs"
        self.figures = self.root / "figures"
        self.report = self.root / "report.html"
        self.table_csv = self.root / "table.csv"

    def warm_start(self, seed: int, base: int) -> Path:
        """The run folder of the warm start of a seed: `shared` for the base run's, else `shared-<seed>`."""
        return self.shared if seed == base else self.root / f"{self.shared.name}-{seed}"

    def run(self, cell: CellKey) -> RunFolder:
        return RunFolder(self.runs / cell.name)

    def log(self, cell: CellKey) -> Path:
        """The file with the terminal output of a cell's process."""
        return self.runs / f"{cell.name}.log"

    def attempts(self, cell: CellKey) -> Path:
        """A line for every start of a cell's process, and one for every end that it lived to see."""
        return self.runs / f"{cell.name}.attempts.jsonl"

    def result(self, cell: CellKey) -> Path:
        return self.results / f"{cell.name}.json"

    def started(self) -> bool:
        return self.config.is_file()

    def check_vacant(self, *, resume: bool) -> None:
        """Raises RunFolderError unless a comparison may start or go on here."""
        if self.root.exists() and not self.root.is_dir():
            raise RunFolderError(f"{self.root}: expected a folder, got a file: choose another --output")
        early = (LOCK, self.shared.name, self.shared_log.name, self.checked.name, self.versions.name)
        others = [
            item.name
            for item in sorted(self.root.iterdir() if self.root.is_dir() else ())
            if item.name not in early
            and not item.name.removeprefix(f"{self.shared.name}-").isdecimal()
            and not item.name.endswith(HALF_WRITTEN)
        ]
        expected = f"an empty folder or that of a comparison, got one with {others[0]}:" if others else None
        if self.started():
            expected = None if resume else "a new folder, got one with a comparison: resume it with --resume, or"
            if COMPACT in others:
                expected = f"a comparison's own folder, got one with {COMPACT}, which cannot be resumed:"
        if expected:
            raise RunFolderError(f"{self.root}: expected {expected} choose another --output")

    def read_config(self) -> CompareConfig:
        if not self.started():
            raise RunFolderError(f"{self.root}: expected a comparison to resume, got no {self.config.name}")
        data, _ = read_yaml(self.config)
        return parse_compare_config(data)

    def read_plan(self) -> CompareConfig:
        """The same as far as tables and pages need it: the other settings of the base run may be of another version."""
        data, _ = read_yaml(self.config)
        run = data.get("run") or {}
        reward = {name: value for name, value in (run.get("reward") or {}).items() if name in (*KINDS, "function")}
        section = run.get("curator") or {}
        curator = CuratorName(section if isinstance(section, str) else section.get("type", "grpo"))
        return parse_compare_config(
            {**data, "run": BaseOfTables(RewardConfig(**reward), curator, run.get("grpo") or {})}
        )

    def keeps_runs(self) -> bool:
        """Whether the comparison, as it was last started, keeps the folders of its runs."""
        return self.started() and bool(read_yaml(self.config)[0].get("keep_runs"))

    def cells_by_run(self) -> list[tuple[CellKey, ...]]:
        """The cells of the plan by the run that fills them: those of a seed whose merged settings do not differ.

        Read from the file alone, without loading a curator: cells that differ only in whether a default is written out
        count as two runs.
        """
        plan = self.read_plan()
        data, _ = read_yaml(self.config)
        by_settings: dict[str, list[CellKey]] = {}
        for cell in planned_cells(plan):
            settings = merged_settings(data.get("run") or {}, plan.levels[cell.level], default_types=DEFAULT_TYPES)
            settings = merged_settings(settings, plan.arms[cell.arm], default_types=DEFAULT_TYPES)
            # Numbers as floats: 0 and 0.0 are the same setting.
            values = {key: _as_float(value) for key, value in flat(settings).items()}
            by_settings.setdefault(json.dumps([values, cell.seed], sort_keys=True), []).append(cell)
        return [tuple(cells) for cells in by_settings.values()]

    def initialise(self, config: CompareConfig) -> None:
        """Writes `compare.yaml` and `versions.json`; the versions of a later start that differ are added to it."""
        self.root.mkdir(parents=True, exist_ok=True)
        now: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **package_versions()}
        if self.versions.is_file():
            first = read_json(self.versions)
            later = first.pop("later", [])
            if now not in (first, *later):
                later.append(now)
            now = {**first, "later": later} if later else first
        write_json(self.versions, now)
        write_atomically(self.config, dump_yaml(plain_settings(config)))

    def prepared_shapes(self, settings: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
        """The shapes of the runs that an earlier start has checked, by key; none unless its warm starts are complete
        and were made with these settings."""
        prepared = read_json(self.prepared) if self.prepared.is_file() else {}
        return prepared["runs"] if prepared.get("settings") == settings else {}

    def read_result(self, cell: CellKey) -> dict[str, Any] | None:
        path = self.result(cell)
        return read_json(path) if path.is_file() else None

    def finished(self, planned: PlannedRun) -> bool:
        """Whether a run has its result, which each of its cells then has; ConfigError for one of other settings."""
        found = [self.read_result(cell) for cell in planned.cells]
        done = [result for result in found if result is not None and result["status"] == "finished"]
        for result in done:
            if result["settings_key"] != planned.key:
                path = self.result(CellKey(*(result[name] for name in ("level", "arm", "seed"))))
                check_same_settings(planned.settings, settings_without_output(result["run"]), path)
                expected = "expected a result of this comparison's warm start, got one of another"
                raise ConfigError(f"{path}: {expected}: choose another --output")
        if 0 < len(done) < len(found):  # a level was added to a run that is the same at every level
            self.write_result(planned, done[0])
        return bool(done)

    def check_unfinished(self, planned: PlannedRun) -> None:
        """Makes sure that what was begun of a run can be resumed; a run that failed with other settings is removed."""
        run = self.run(planned.cell)
        if not run.started():
            return
        then = settings_without_output(run.read_config())
        result = self.read_result(planned.cell)
        if result is None or result["status"] != "failed":
            check_same_settings(planned.settings, then, run.root)
        elif first_difference(planned.settings, then) is not None:
            remove_folder(run.root)

    def write_result(self, planned: PlannedRun, result: Mapping[str, Any]) -> None:
        """Writes the result of a run into every cell that it fills."""
        settings = dict(planned.settings["curator"])
        curator = {"curator": settings.pop("type"), "settings": settings}
        for cell in planned.cells:
            whose = {"schema_version": SCHEMA_VERSION, "arm": cell.arm, "level": cell.level, "seed": cell.seed}
            same = {} if cell == planned.cell else {"same_run_as": planned.cell.name}
            kept = {name: value for name, value in result.items() if name not in (*whose, "same_run_as")}
            content = {**whose, **curator, **kept, **same, "settings_key": planned.key, "run": planned.settings}
            write_atomically(self.result(cell), json.dumps(finite(content), ensure_ascii=False) + "\n")

    def discard(self, planned: PlannedRun) -> None:
        """Removes the run folder of a run that has its result, and what its process left beside it; again, where a kill
        left some of it."""
        remove_folder(self.run(planned.cell).root)
        for path in (self.log(planned.cell), self.attempts(planned.cell)):
            path.unlink(missing_ok=True)


def _as_float(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
