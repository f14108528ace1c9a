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
from geoalign.lab.runs.reading import Evaluation, MetricRow, parse_evaluation, parse_metrics

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
# Counts, of which 0 says nothing.
_COUNTS = ("geoalign/scored_rollouts", "geoalign/anomalous", "geoalign/replaced")
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
    """The lines to print of a folder, by what kind of folder it is."""
    comparison = ComparisonFolder(folder)
    if comparison.started():
        return _comparison(comparison)
    audit = AuditFolder(folder)
    run = RunFolder(folder)
    if audit.started() and not run.started():
        return _audit(audit)
    evaluation = EvaluationFolder(folder)
    if evaluation.started():
        return _judging(folder) if is_judging(folder) else _evaluation(evaluation)
    return _run(run)


def _run(run: RunFolder) -> Iterator[str]:
    """The newest metrics of a run, and the last evaluation on each set."""
    metrics = [parse_metrics(line) for line in read_lines(run.metrics)]
    evaluations = [parse_evaluation(line) for line in read_lines(run.evaluation)]
    if not metrics and not run.started() and _lock_holder(run.root) is None:
        raise RunFolderError(
            f"{run.root}: expected the folder of a run, comparison, audit, evaluation or judging, got none of them"
        )
    state = "finished" if run.finished() else _worker(run.root)
    yield f"{run.root}: {state}, {_age(run)}"
    if metrics:
        yield f"{_step(run, metrics[-1])}: {', '.join(_newest_values(metrics))}"
    last_of_set = {evaluation.set: evaluation for evaluation in evaluations}
    for evaluation in last_of_set.values():
        yield _evaluation_line(evaluation)


def _step(run: RunFolder, row: MetricRow) -> str:
    """The stage and the step of a line of metrics, with the number of steps where the settings say it."""
    words = f"{_STAGES.get(row.stage, row.stage)}, step {row.step:,}"
    if not run.started() or row.stage not in _SECTIONS:
        return words
    section = run.read_config().get(_SECTIONS[row.stage]) or {}
    steps = section.get("max_steps")
    return words if steps is None else f"{words} of {steps:,}"


def _newest_values(rows: list[MetricRow]) -> Iterator[str]:
    """The last value of each quantity in the stage that goes on: not every update generates and logs a reward. What
    never happened, such as a count of 0, is left out."""
    newest: dict[str, float] = {}
    for row in rows:
        if row.stage == rows[-1].stage:
            newest.update(row.values)
    for key, words in _SHOWN.items():
        if key in newest and (newest[key] != 0 or key not in _COUNTS):
            yield f"{words} {short(newest[key])}"


def _evaluation_line(evaluation: Evaluation) -> str:
    """An evaluation in words. The reward of a set with an accuracy is the accuracy, and left out."""
    values = dict(evaluation.values)
    if "accuracy" in values:
        values.pop("reward", None)
    shown = [f"{METRICS[name]} {short(value)}" for name, value in values.items()]
    when = "" if evaluation.stage == "rl" else f" ({_STAGES.get(evaluation.stage, evaluation.stage)})"
    return f"evaluation on {evaluation.set} at step {evaluation.step:,}{when}: {', '.join(shown) or 'no value'}"


def _comparison(folder: ComparisonFolder) -> Iterator[str]:
    """A comparison's runs by their state; one that fills several cells, such as `clean` at every level, counts once."""
    runs = folder.cells_by_run()
    has_results = folder.results.is_dir() or (folder.root / COMPACT).is_file()
    recorded = read_results(folder.root) if has_results else ()
    results = {CellKey(result.level, result.arm, result.seed): result for result in recorded}
    running: list[CellKey] = []
    failed: list[CellKey] = []
    finished = 0
    for cells in runs:
        held = [cell for cell in cells if _lock_holder(folder.run(cell).root) is not None]
        with_result = [cell for cell in cells if cell in results]
        if held:
            running.append(held[0])
        elif any(results[cell].finished for cell in with_result):
            finished += 1
        elif with_result:
            failed.append(with_result[0])
    waiting = len(runs) - finished - len(failed) - len(running)
    is_over = finished == len(runs) and _lock_holder(folder.root) is None
    yield f"{folder.root}: {'finished' if is_over else _worker(folder.root)}"
    counts = {"finished": finished, "failed": len(failed), "running": len(running), "waiting": waiting}
    states = [f"{count} {state}" for state, count in counts.items() if count]
    yield f"{len(runs)} runs: {', '.join(states)}"
    for warm_start in sorted(folder.root.glob(f"{folder.shared.name}*")):
        if _lock_holder(warm_start) is not None:
            yield from _run(RunFolder(warm_start))
    for cell in running:
        yield from _run(folder.run(cell))
    for cell in failed:
        yield f"{cell.name} failed: {results[cell].error or 'no reason given'}"


def _audit(folder: AuditFolder) -> Iterator[str]:
    """The counts of a finished audit."""
    if not folder.finished():
        yield f"{folder.root}: audit, {_worker(folder.root, again='the same command starts again')}"
        return
    summary = read_json(folder.summary)
    counts = summary["counts"]
    files = len(summary["inputs"])
    yield f"{folder.root}: audit, finished"
    yield f"{counts['flagged']:,} of {counts['rows']:,} rewards look wrong"
    yield f"{counts['groups']:,} groups, {files:,} {'file' if files == 1 else 'files'}"
    if counts["skipped"]:
        yield f"{counts['skipped']:,} rows were skipped; summary.json lists them"


def _evaluation(folder: EvaluationFolder) -> Iterator[str]:
    """The responses of each model on each set that the last command asked for, and their scores once it is finished."""
    recorded = folder.recorded()
    asked = {} if recorded is None else recorded.asked
    there = folder.counts()
    whole = all(there[name, of_set] >= number for name, sets in asked.items() for of_set, number in sets.items())
    finished = whole and folder.result.is_file() and _lock_holder(folder.root) is None
    yield f"{folder.root}: evaluation, {'finished' if finished else _worker(folder.root)}"
    scores = read_json(folder.result)["models"] if finished else {}
    for name, sets in asked.items():
        for of_set, number in sets.items():
            found = min(there[name, of_set], number)
            said = _scored(scores.get(name, {}).get("sets", {}).get(of_set, {}))
            yield f"{name}, {of_set}: {found:,} of {number:,} responses{said}"


def _scored(scores: Mapping[str, Any]) -> str:
    """The accuracy of a set, or its reward where it has none, to follow other words; empty without either."""
    if scores.get("accuracy") is not None:
        return f", accuracy {estimate(Interval(**scores['accuracy']), percent)}"
    if scores.get("reward") is not None:
        return f", reward {estimate(Interval(**scores['reward']))}"
    return ""


def _judging(folder: Path) -> Iterator[str]:
    """How many pairs are judged; of a finished judging the shares that won."""
    result = folder / JUDGED
    if not result.is_file() or _lock_holder(folder) is not None:
        yield f"{folder}: judging, {_worker(folder, again='the same command resumes')}"
        yield f"{len(read_lines(folder / JUDGMENTS)):,} pairs judged"
        return
    overall = read_json(result)["overall"]
    yield f"{folder}: judging, finished"
    shares = []
    for name, words in (("win", "A won"), ("lose", "A lost"), ("tie", "ties")):
        share = float_or_nan(overall[name]["estimate"])
        shares.append(f"{words} {percent(share)}")
    yield f"{overall['judged']:,} of {overall['pairs']:,} pairs judged: {', '.join(shares)}"
    if overall["failed"]:
        yield f"{overall['failed']:,} pairs failed; the same command asks for them again"


def _lock_holder(folder: Path) -> str | None:
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
    """Who works on an unfinished folder, or how its work is taken up `again`."""
    process = _lock_holder(folder)
    return f"no process works on it ({again})" if process is None else f"running (process {process})"


def _age(run: RunFolder) -> str:
    """How long ago the newest line of a run's logs was written."""
    written = [log.stat().st_mtime for log in (run.metrics, run.evaluation) if log.is_file()]
    if not written:
        return "no line yet"
    seconds = max(0.0, time.time() - max(written))
    return f"last line {duration(seconds)} ago"
