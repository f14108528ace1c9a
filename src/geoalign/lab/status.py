"""`geoalign status`: where a run or a comparison stands, by its files, read once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from geoalign.errors import RunFolderError
from geoalign.lab.config.compare import CellKey
from geoalign.lab.numbers import duration, short
from geoalign.lab.store.comparison import COMPACT, ComparisonFolder, read_results
from geoalign.lab.store.files import LOCK
from geoalign.lab.store.json_files import read_lines
from geoalign.lab.store.read_run import MetricRow, parse_evaluation, parse_metrics
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.terminal import Console, say

# The section of the settings that each stage is trained by.
_SECTIONS = {"sft": "sft", "reward_model": "reward_model", "gold_model": "gold_model", "rl": "grpo"}
# What is shown of a stage's metrics, where it has them.
_SHOWN = (
    "reward", "geoalign/curated_reward", "true_reward", "geoalign/scored_rollouts", "geoalign/anomalous",
    "geoalign/replaced", "geoalign/new_group_accuracy", "loss", "ppo_kl", "completions/mean_length",
    "mean_token_accuracy", "accuracy", "step_time",
)  # fmt: skip


def status(folder: Path, console: Console) -> None:
    """Prints the state of the run or comparison in `folder`: who works on it, step, metrics, failures."""
    comparison = ComparisonFolder(folder)
    for line in _comparison(comparison) if comparison.started() else _run(RunFolder(folder)):
        say(console, line)


def _run(run: RunFolder) -> Iterator[str]:
    rows = [parse_metrics(line) for line in read_lines(run.metrics)]
    evaluations = [parse_evaluation(line) for line in read_lines(run.evaluation)]
    if not rows and not run.started() and _holder(run.root) is None:
        raise RunFolderError(f"{run.root}: expected the folder of a run or a comparison, got neither")
    yield f"{run.root}: {'finished' if run.finished() else _worker(run.root)}, {_age(run)}"
    if rows:
        yield f"{_step(run, rows[-1])}: {', '.join(_newest(rows))}"
    for last in {row.set: row for row in evaluations}.values():
        values = ", ".join(f"{name} {short(value)}" for name, value in last.values.items())
        yield f"evaluation {last.set} at step {last.step:,} ({last.stage}): {values or 'no value'}"


def _step(run: RunFolder, row: MetricRow) -> str:
    section = run.read_config().get(_SECTIONS.get(row.stage, "")) if run.started() else None
    total = (section or {}).get("max_steps")
    return f"{row.stage} step {row.step:,}" + ("" if total is None else f" of {total:,}")


def _newest(rows: list[MetricRow]) -> Iterator[str]:
    """The last value of each quantity in the stage that goes on: not every update generates and logs a reward."""
    values = {key: value for row in rows if row.stage == rows[-1].stage for key, value in row.values.items()}
    return (f"{key} {short(values[key])}" for key in _SHOWN if key in values)


def _comparison(folder: ComparisonFolder) -> Iterator[str]:
    """A comparison's runs by their state; one that fills several cells, such as `clean` at every level, counts once."""
    runs = folder.planned_runs()
    there = folder.results.is_dir() or (folder.root / COMPACT).is_file()
    results = {CellKey(done.level, done.arm, done.seed): done for done in (read_results(folder.root) if there else ())}
    running: list[CellKey] = []
    failed: list[CellKey] = []
    finished = 0
    for cells in runs:
        held = [cell for cell in cells if _holder(folder.run(cell).root) is not None]
        done = [cell for cell in cells if cell in results]
        if held:
            running.append(held[0])
        elif any(results[cell].finished for cell in done):
            finished += 1
        elif done:
            failed.append(done[0])
    waiting = len(runs) - finished - len(failed) - len(running)
    counts = {"finished": finished, "failed": len(failed), "running": len(running), "waiting": waiting}
    over = finished == len(runs) and _holder(folder.root) is None
    yield f"{folder.root}: {'finished' if over else _worker(folder.root)}"
    yield f"{len(runs)} runs: {', '.join(f'{count} {state}' for state, count in counts.items() if count)}"
    starts = [path for path in sorted(folder.root.glob(f"{folder.shared.name}*")) if _holder(path) is not None]
    for run in (*map(RunFolder, starts), *map(folder.run, running)):
        yield from _run(run)
    for cell in failed:
        yield f"{cell.name} failed: {results[cell].error or 'no reason given'}"


def _holder(folder: Path) -> str | None:
    """The number of the process that holds a folder's lock; None where none does."""
    try:
        with (folder / LOCK).open("rb") as file:
            try:
                os.lockf(file.fileno(), os.F_TEST, 0)
            except OSError:
                return file.read(32).strip().decode("ascii", "replace") or "unknown"
    except OSError:
        pass
    return None


def _worker(folder: Path) -> str:
    process = _holder(folder)
    return "no process works on it (go on with --resume)" if process is None else f"running (process {process})"


def _age(run: RunFolder) -> str:
    times = [path.stat().st_mtime for path in (run.metrics, run.evaluation) if path.is_file()]
    return f"last line {duration(max(0.0, time.time() - max(times)))} ago" if times else "no line yet"
