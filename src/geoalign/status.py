"""`geoalign status`: where a run, comparison, audit, evaluation or judging stands, by its files, read once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from geoalign.audit.folder import AuditFolder
from geoalign.console.numbers import duration, estimate, percent, short
from geoalign.console.terminal import Console, say
from geoalign.errors import RunFolderError
from geoalign.files.durable import LOCK
from geoalign.files.json_files import float_or_nan, read_json, read_lines
from geoalign.intervals import Interval
from geoalign.lab.compare.folder import COMPACT, ComparisonFolder
from geoalign.lab.compare.plan import CellKey
from geoalign.lab.compare.results import read_results
from geoalign.lab.compare.settings import METRICS
from geoalign.lab.evaluate.folder import EvaluationFolder
from geoalign.lab.judge.folder import JUDGED, JUDGMENTS, is_judging
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.reading import MetricRow, parse_evaluation, parse_metrics

# The section of the settings that each stage is trained by.
_SECTIONS = {"sft": "sft", "reward_model": "reward_model", "gold_model": "gold_model", "rl": "grpo"}
# What is shown of a stage's metrics, where it has them.
_SHOWN = {
    "reward": "reward",
    "geoalign/curated_reward": "reward after curation",
    "true_reward": "true reward",
    "geoalign/scored_rollouts": "scored rollouts",
    "geoalign/anomalous": "flagged",
    "geoalign/replaced": "replaced",
    "geoalign/new_group_accuracy": "accuracy on new groups",
    "loss": "loss",
    "ppo_kl": "KL",
    "completions/mean_length": "tokens per response",
    "mean_token_accuracy": "token accuracy",
    "accuracy": "accuracy",
    "step_time": "seconds per step",
}
# Stages of a run, and when an evaluation was made, in words.
_STAGES = {
    "sft": "warm start",
    "reward_model": "reward model",
    "gold_model": "gold model",
    "rl": "RL",
    "before_rl": "before RL",
    "after_rl": "after RL",
}


def status(folder: Path, console: Console) -> None:
    """Prints the state of what lies in `folder`: who works on it, how far it is, its last numbers, failures."""
    for line in _lines_of(folder):
        say(console, line)


def _lines_of(folder: Path) -> Iterator[str]:
    comparison = ComparisonFolder(folder)
    if comparison.started():
        return _comparison(comparison)
    if AuditFolder(folder).started() and not RunFolder(folder).started():
        return _audit(AuditFolder(folder))
    if EvaluationFolder(folder).started():
        return _judging(folder) if is_judging(folder) else _evaluation(EvaluationFolder(folder))
    return _run(RunFolder(folder))


def _run(run: RunFolder) -> Iterator[str]:
    rows = [parse_metrics(line) for line in read_lines(run.metrics)]
    evaluations = [parse_evaluation(line) for line in read_lines(run.evaluation)]
    if not rows and not run.started() and _holder(run.root) is None:
        raise RunFolderError(
            f"{run.root}: expected the folder of a run, comparison, audit, evaluation or judging, got none of them"
        )
    yield f"{run.root}: {'finished' if run.finished() else _worker(run.root)}, {_age(run)}"
    if rows:
        yield f"{_step(run, rows[-1])}: {', '.join(_newest(rows))}"
    for last in {row.set: row for row in evaluations}.values():
        # The reward of a set with an accuracy is the accuracy.
        known = {
            name: value for name, value in last.values.items() if name != "reward" or "accuracy" not in last.values
        }
        values = ", ".join(f"{METRICS[name]} {short(value)}" for name, value in known.items())
        when = "" if last.stage == "rl" else f" ({_STAGES.get(last.stage, last.stage)})"
        yield f"evaluation on {last.set} at step {last.step:,}{when}: {values or 'no value'}"


def _step(run: RunFolder, row: MetricRow) -> str:
    section = run.read_config().get(_SECTIONS.get(row.stage, "")) if run.started() else None
    total = (section or {}).get("max_steps")
    of_total = "" if total is None else f" of {total:,}"
    return f"{_STAGES.get(row.stage, row.stage)}, step {row.step:,}{of_total}"


def _newest(rows: list[MetricRow]) -> Iterator[str]:
    """The last value of each quantity in the stage that goes on: not every update generates and logs a reward. What
    never happened, such as a count of 0, is left out."""
    values = {key: value for row in rows if row.stage == rows[-1].stage for key, value in row.values.items()}
    for key, words in _SHOWN.items():
        # A replaced or flagged count of 0 says nothing; a reward or a loss of 0 does.
        counted = key in ("geoalign/scored_rollouts", "geoalign/anomalous", "geoalign/replaced")
        if key in values and not (counted and values[key] == 0):
            yield f"{words} {short(values[key])}"


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
    states = [f"{count} {state}" for state, count in counts.items() if count]
    yield f"{len(runs)} runs: {', '.join(states)}"
    starts = [path for path in sorted(folder.root.glob(f"{folder.shared.name}*")) if _holder(path) is not None]
    for run in (*map(RunFolder, starts), *map(folder.run, running)):
        yield from _run(run)
    for cell in failed:
        yield f"{cell.name} failed: {results[cell].error or 'no reason given'}"


def _audit(folder: AuditFolder) -> Iterator[str]:
    if not folder.finished():
        yield f"{folder.root}: audit, {_worker(folder.root, again='the same command starts again')}"
        return
    summary = read_json(folder.summary)
    counts = summary["counts"]
    yield f"{folder.root}: audit, finished"
    yield f"{counts['flagged']:,} of {counts['rows']:,} rewards look wrong"
    files = len(summary["inputs"])
    yield f"{counts['groups']:,} groups, {files:,} {'file' if files == 1 else 'files'}"
    if counts["skipped"]:
        yield f"{counts['skipped']:,} rows were skipped; summary.json lists them"


def _evaluation(folder: EvaluationFolder) -> Iterator[str]:
    """The responses of each model on each set that the last command asked for, and their scores once it is finished."""
    recorded = folder.recorded()
    asked = {} if recorded is None else recorded.asked
    there = folder.counts()
    whole = all(there[name, of_set] >= number for name, sets in asked.items() for of_set, number in sets.items())
    finished = whole and folder.result.is_file() and _holder(folder.root) is None
    yield f"{folder.root}: evaluation, {'finished' if finished else _worker(folder.root)}"
    scores = read_json(folder.result)["models"] if finished else {}
    for name, sets in asked.items():
        for of_set, number in sets.items():
            found = min(there[name, of_set], number)
            said = _scored(scores.get(name, {}).get("sets", {}).get(of_set, {}))
            yield f"{name}, {of_set}: {found:,} of {number:,} responses{said}"


def _scored(scores: Mapping[str, Any]) -> str:
    accuracy, reward = scores.get("accuracy"), scores.get("reward")
    if accuracy is not None:
        return f", accuracy {estimate(Interval(**accuracy), percent)}"
    return "" if reward is None else f", reward {estimate(Interval(**reward))}"


def _judging(folder: Path) -> Iterator[str]:
    result = folder / JUDGED
    judged = len(read_lines(folder / JUDGMENTS))
    if not result.is_file() or _holder(folder) is not None:
        yield f"{folder}: judging, {_worker(folder, again='the same command resumes')}"
        yield f"{judged:,} pairs judged"
        return
    overall = read_json(result)["overall"]
    yield f"{folder}: judging, finished"
    words = {"win": "A won", "lose": "A lost", "tie": "ties"}
    shares = [f"{said} {percent(float_or_nan(overall[name]['estimate']))}" for name, said in words.items()]
    yield f"{overall['judged']:,} of {overall['pairs']:,} pairs judged: {', '.join(shares)}"
    if overall["failed"]:
        yield f"{overall['failed']:,} pairs failed; the same command asks for them again"


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


def _worker(folder: Path, *, again: str = "resume with --resume") -> str:
    process = _holder(folder)
    return f"no process works on it ({again})" if process is None else f"running (process {process})"


def _age(run: RunFolder) -> str:
    times = [path.stat().st_mtime for path in (run.metrics, run.evaluation) if path.is_file()]
    return f"last line {duration(max(0.0, time.time() - max(times)))} ago" if times else "no line yet"
