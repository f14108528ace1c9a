"""The folder of a comparison, watched: which runs are finished, running, failed and waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from geoalign.lab.config.comparison_plan import PlannedRun, make_plan
from geoalign.lab.store.comparison import ComparisonFolder, read_result
from geoalign.lab.store.json_files import read_yaml
from geoalign.lab.text import duration, harmless, short
from geoalign.lab.watch.run import WatchedRun
from geoalign.lab.watch.run_view import STAGES, Screen
from geoalign.lab.watch.sparkline import sparkline
from geoalign.lab.watch.status import Lock, read_lock

CellState = Literal["finished", "failed", "running", "waiting"]
# Failed runs that are shown with their error; a line says how many more there are.
_FAILURES = 5
_SPARKS_FROM, _SPARK = 80, 20


@dataclass(frozen=True)
class CellStatus:
    """One run of the plan: its state, and why it failed."""

    state: CellState
    error: str = ""


class WatchedComparison:
    """A comparison's folder that is looked at again and again; results that did not change are read once.

    Attributes:
        cells: state of each planned run by the name of its cell, after the first look.
        running: the runs that go on now.
        lock: whether a process works on the comparison.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = ComparisonFolder(folder)
        self.shared = WatchedRun(self.folder.shared)
        self.cells: dict[str, CellStatus] = {}
        self.running: dict[str, WatchedRun] = {}
        self.lock = Lock("unknown")
        self._plan: list[PlannedRun] = []
        self._plan_from: tuple[int, int] | None = None
        self._results: dict[str, tuple[tuple[int, int], CellStatus]] = {}

    def look(self) -> dict[str, CellStatus]:
        """Reads what is new; returns the cells whose state changed.

        Raises:
            RunFolderError, ConfigError: settings or a result cannot be read.
        """
        self._read_plan()
        self.lock = read_lock(self.folder.root)
        if not self.prepared:
            self.shared.look()
        before, running = self.cells, {}
        self.cells = {}
        for planned in self._plan:
            name = planned.cell.name
            self.cells[name] = self._cell(planned)
            if self.cells[name].state == "running":
                running[name] = self.running.get(name) or WatchedRun(self.folder.run(planned.cell).root)
                running[name].look()
        self.running = running
        return {name: cell for name, cell in self.cells.items() if before.get(name) != cell}

    @property
    def prepared(self) -> bool:
        """True once the warm start that the runs share is complete."""
        return self.folder.prepared.is_file()

    @property
    def over(self) -> bool:
        """True where nothing is left to run and no process works on it."""
        left = any(cell.state in ("running", "waiting") for cell in self.cells.values())
        return bool(self.cells) and not left and self.lock.held != "held"

    def headline(self) -> str:
        """Counts of the runs."""
        states = [cell.state for cell in self.cells.values()]
        counts = [f"{states.count('finished')} of {len(states)} runs finished"]
        counts += [f"{count} {state}" for state in ("failed", "running", "waiting") if (count := states.count(state))]
        return ", ".join(counts)

    def status_line(self) -> str:
        """Whether somebody works on it, in a sentence."""
        if self.over:
            return "nothing is left to run"
        if self.lock.held == "held":
            return f"running (process {self.lock.process})"
        if self.lock.held == "free":
            return "stopped before its end: no process holds the comparison; geoalign compare --resume resumes it"
        return "no lock file says whether it runs"

    def _read_plan(self) -> None:
        version = _version(self.folder.config)
        if version != self._plan_from:
            read_yaml(self.folder.config)  # refuses what no settings can be read from
            self._plan = make_plan(self.folder.read_config())
            self._plan_from = version

    def _cell(self, planned: PlannedRun) -> CellStatus:
        name = planned.cell.name
        version = _version(self.folder.result(planned.cell))
        status = None
        if version is not None:
            cached = self._results.get(name)
            if cached is None or cached[0] != version:
                cached = (version, _result(read_result(self.folder.result(planned.cell))))
                self._results[name] = cached
            status = cached[1]
        if status is not None and status.state == "finished":
            return status
        if read_lock(self.folder.run(planned.cell).root).held == "held":
            return CellStatus("running")
        return status or CellStatus("waiting")


def _version(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written anew; None where there is none."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ino


def _result(result: Mapping[str, object]) -> CellStatus:
    if result.get("status") == "finished":
        return CellStatus("finished")
    return CellStatus("failed", str(result.get("error") or "no reason given"))


def comparison_view(comparison: WatchedComparison, screen: Screen) -> RenderableType:
    """The whole view of a comparison."""
    line = comparison.status_line()
    style = "red" if line.startswith("stopped") else "green"
    parts: list[RenderableType] = [
        Text(harmless(comparison.folder.root, screen.encoding), style="bold", overflow="fold"),
        Text(comparison.headline(), overflow="fold"),
        Text(line, style=style, overflow="fold"),
    ]
    shared = comparison.shared.history
    if not comparison.prepared and shared.current is not None:
        stage = STAGES.get(shared.current) or harmless(shared.current, screen.encoding, 40)
        parts.append(Text(f"shared {_step(comparison.shared, shared.current, stage)}"))
    if comparison.running:
        parts += [Text(""), _running(comparison, screen)]
    failed = [(name, cell.error) for name, cell in comparison.cells.items() if cell.state == "failed"]
    if failed:
        parts.append(Text(""))
    for name, error in failed[:_FAILURES]:
        text = f"{harmless(name, screen.encoding)} failed: {harmless(' '.join(error.split()), screen.encoding)}"
        parts.append(Text(text, style="red", overflow="fold"))
    if len(failed) > _FAILURES:
        parts.append(Text(f"{len(failed) - _FAILURES} more failed", style="red"))
    return Group(*parts)


def _running(comparison: WatchedComparison, screen: Screen) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(overflow="fold")
    for name, run in comparison.running.items():
        current = run.history.current
        stage = run.history.stages.get(current or "")
        reward = stage.newest("reward") if stage else None
        spark = ""
        if stage is not None and screen.width >= _SPARKS_FROM:
            spark = " " + sparkline(stage.history("reward"), _SPARK, screen.encoding)
        age = run.status().age
        step = "starting" if current is None else _step(run, current, STAGES.get(current) or "step")
        cells = [harmless(name, screen.encoding), step if age is None else f"{step}, {duration(age)} ago"]
        table.add_row(*map(Text, cells), Text("" if reward is None else f"reward {short(reward)}{spark}"))
    return table


def _step(run: WatchedRun, stage: str, name: str) -> str:
    total = run.total_steps(stage)
    return f"{name} {run.history.stages[stage].step:,}" + ("" if total is None else f" of {total:,}")
