"""`geoalign watch`: looks at a folder again and again and shows it, until it is finished or the user leaves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from geoalign.errors import RunFolderError
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.logs import Evaluation
from geoalign.lab.terminal import Console
from geoalign.lab.text import duration, harmless, percent, short
from geoalign.lab.watch.comparison import WatchedComparison, comparison_view
from geoalign.lab.watch.history import Step
from geoalign.lab.watch.run import News, WatchedRun, check_run_folder
from geoalign.lab.watch.run_view import STAGES, Screen, evaluated, run_view, status_line

_LABELS = {
    "reward": "reward", "curated": "curated", "true": "true", "flagged": "flagged", "replaced": "replaced",
    "new_groups": "new groups", "kl": "KL", "loss": "loss", "seconds": "seconds",
}  # fmt: skip


class Watched(Protocol):
    """What can be watched."""

    def look(self) -> bool:
        """Reads what is new; True where nothing more will come."""

    def view(self, screen: Screen) -> RenderableType:
        """All of it, for a terminal."""

    def lines(self, encoding: str) -> list[str]:
        """What the last look brought, for other output."""


class RunWatch:
    """A run: ends when it is finished or its folder is gone."""

    def __init__(self, folder: Path) -> None:
        self.run = WatchedRun(folder)
        self._news = News([], [], False)
        self._state = ""

    def look(self) -> bool:
        """Reads what is new."""
        if self.run.status().state == "waiting":
            check_run_folder(self.run.folder.root)
        # Asked first: what is written before the end is then read in this look.
        over = self.run.status().state in ("finished", "removed")
        self._news = self.run.look()
        return over

    def view(self, screen: Screen) -> RenderableType:
        """The run on a terminal."""
        return run_view(self.run, screen)

    def lines(self, encoding: str) -> list[str]:
        """A line for each new step and evaluation, and one where its state changed."""
        lines = []
        if self._news.restarted:
            lines.append("the files were cut back or written anew; from their beginning:")
        lines += [step_line(step, self.run, encoding) for step in self._news.steps]
        lines += [evaluation_line(evaluation, encoding) for evaluation in self._news.evaluations]
        status = self.run.status()
        if status.state != self._state:
            self._state = status.state
            lines.append(status_line(status, self.run))
        return lines


def step_line(step: Step, run: WatchedRun, encoding: str) -> str:
    """A step: its stage and number, and what it logged of the quantities that matter most."""
    total = run.total_steps(step.stage)
    of = "" if total is None else f"/{total}"
    parts = [f"{STAGES.get(step.stage) or harmless(step.stage, encoding, 40)} {step.step}{of}"]
    for name, label in _LABELS.items():
        value = step.values.get(name)
        if value is not None:
            parts.append(f"{label} {_shown(name, value)}")
    return "  ".join(parts)


def _shown(name: str, value: float) -> str:
    if name == "seconds":
        return duration(value)
    return percent(value) if name == "new_groups" else short(value)


def evaluation_line(evaluation: Evaluation, encoding: str) -> str:
    """An evaluation of one set."""
    return f"evaluation {harmless(evaluation.set, encoding, 40)} at step {evaluation.step}  {evaluated(evaluation)}"


class ComparisonWatch:
    """A comparison: ends when every run is finished or failed and no process works on it."""

    def __init__(self, folder: Path) -> None:
        self.comparison = WatchedComparison(folder)
        self._lines: list[tuple[str, str, str]] = []
        self._status_line = ""

    def look(self) -> bool:
        """Reads what is new."""
        first = not self.comparison.cells
        changed = self.comparison.look()
        new = {} if first else changed
        self._lines = [(name, cell.state, cell.error) for name, cell in new.items()]
        return self.comparison.over

    def view(self, screen: Screen) -> RenderableType:
        """The comparison on a terminal."""
        return comparison_view(self.comparison, screen)

    def lines(self, encoding: str) -> list[str]:
        """A line for each run whose state changed, and the counts where any did."""
        lines = []
        for name, state, error in self._lines:
            why = f": {harmless(' '.join(error.split()), encoding)}" if error else ""
            lines.append(f"{harmless(name, encoding)} {state}{why}")
        now = f"{self.comparison.headline()}; {self.comparison.status_line()}"
        if now != self._status_line:
            self._status_line = now
            lines.append(now)
        return lines


def watch(folder: Path, console: Console, *, once: bool = False, follow: bool = False, interval: float = 1.0) -> None:
    """Shows a run, or a comparison, until it is finished; on a terminal as a live view, elsewhere line by line.

    Args:
        once: show what there is now, as on a terminal, and return.
        follow: go on looking after the end, for a run that is resumed.
        interval: seconds between looks.

    Raises:
        RunFolderError: the path is a file, or a folder of something else; with `once`, also where there is none.
        ConfigError: a comparison's settings are not of this version.
    """
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder}: expected the folder of a run or a comparison, got a file")
    if once and not folder.exists():
        raise RunFolderError(f"{folder}: expected the folder of a run or a comparison, got nothing of that name")
    watched = _watched(folder)
    if once:
        watched.look()
        console.print(watched.view(_screen(console)))
    elif console.is_terminal:
        _live(watched, folder, console, follow=follow, interval=interval)
    else:
        _line_by_line(watched, folder, console, follow=follow, interval=interval)


def _watched(folder: Path) -> Watched:
    return ComparisonWatch(folder) if ComparisonFolder(folder).started() else RunWatch(folder)


def _again(watched: Watched, folder: Path) -> Watched:
    """A folder that was empty may turn out to be a comparison's."""
    return _watched(folder) if isinstance(watched, RunWatch) and ComparisonFolder(folder).started() else watched


def _live(watched: Watched, folder: Path, console: Console, *, follow: bool, interval: float) -> None:
    hint = Text("Ctrl-C leaves; the run goes on", style="dim")
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        while True:
            watched = _again(watched, folder)
            over = watched.look() and not follow
            view = watched.view(_screen(console))
            live.update(view if over else Group(view, hint), refresh=True)
            if over:
                return
            time.sleep(interval)


def _line_by_line(watched: Watched, folder: Path, console: Console, *, follow: bool, interval: float) -> None:
    while True:
        watched = _again(watched, folder)
        over = watched.look() and not follow
        for line in watched.lines(console.encoding):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        console.file.flush()
        if over:
            return
        time.sleep(interval)


def _screen(console: Console) -> Screen:
    return Screen(console.width, console.encoding)
