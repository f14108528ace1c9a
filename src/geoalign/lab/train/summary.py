"""The summary of a run: the numbers of `summary.json` and what is printed of them at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pandas import DataFrame

from geoalign.console.numbers import decimals, percent, whole
from geoalign.console.terminal import Console, print_rows, say, say_paragraph
from geoalign.files.json_files import finite, read_json
from geoalign.lab.runs.decline import REMEDY, Fall, last_falls
from geoalign.lab.runs.detection import areas_of, marked_rows, whole_run
from geoalign.lab.runs.folder import ACCURACY_FILE, RunFolder
from geoalign.lab.runs.generations import OWN_SCORE
from geoalign.lab.runs.numbers import (
    AFTER,
    APPLIED,
    BEFORE,
    OBSERVED,
    PASS_AT,
    RL,
    accuracy_on_new_groups,
    agreement_over_run,
    by_set,
    numbers_of,
    series_of,
)
from geoalign.lab.runs.reading import read_run
from geoalign.statistics import mean

# Number of updates at the start and at the end over which the mean reward is taken.
_ENDS = 10
# Added up over the run.
_COUNTS = ("pairs", "suspects", "anomalous", "replaced", "groups_without_donor", "single_groups", "tied_groups")
# The curator's rows of the closing table: name, entry of the summary, how it is written.
_ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("pairs compared", "pairs", whole),
    ("rollouts flagged", "anomalous", whole),
    ("rollouts replaced", "replaced", whole),
    ("groups left without a donor", "groups_without_donor", whole),
    ("wrong rewards among the flagged", "corrupted_share_of_anomalous", percent),
    ("wrong rewards among all that differ in their group", "corrupted_share", percent),
    ("AUROC of the score for wrong rewards (0.50 is chance)", "auroc", decimals),
    ("accuracy on new groups (0.50 is chance)", "new_group_accuracy", decimals),
    ("cosine with the advantages of the true rewards", APPLIED, partial(decimals, digits=3)),
    ("the same before curation", OBSERVED, partial(decimals, digits=3)),
)


def summarise(folder: RunFolder) -> dict[str, Any]:
    """The numbers of a run, read from its own files, so that a resumed run has the same as an undisturbed one."""
    run = read_run(folder.root)
    numbers = numbers_of(run)
    logged = [line for line in run.metrics if line.stage == RL]
    last = max((line.step for line in logged), default=0)
    reward = series_of(numbers, "reward")
    summary = {
        "steps": last,
        "generations": sum(any(key.startswith("geoalign/") for key in line.values) for line in logged),
        "accuracy": _before_and_after(numbers, "accuracy"),
        "accuracy_low": _before_and_after(numbers, "accuracy_low"),
        "accuracy_high": _before_and_after(numbers, "accuracy_high"),
        "fell_below_start": {fall.set: asdict(fall) for fall in last_falls(run.evaluations)},
        "reward": _before_and_after(numbers, "reward"),
        "gold_utility": _before_and_after(numbers, "gold_utility"),
        "pass_at_k": _pass_at_k(numbers),
        "answers": {stage: _whole(by_set(numbers, "answers", stage)) for stage in (BEFORE, AFTER)},
        "reward_model": _pair_accuracy(folder.reward_model),
        "gold_model": _pair_accuracy(folder.gold_model),
        "reward_first": mean(reward.values[reward.steps <= _ENDS]),
        "reward_last": mean(reward.values[reward.steps > last - _ENDS]),
        "curator": _curator(numbers),
    }
    return finite(summary)


def _before_and_after(numbers: DataFrame, metric: str) -> dict[str, dict[str, float]]:
    """A number of the evaluations by stage and set, where it is known."""
    return {stage: by_set(numbers, metric, stage) for stage in (BEFORE, AFTER)}


def _whole(numbers: Mapping[str, float]) -> dict[str, int]:
    return {name: int(number) for name, number in numbers.items()}


def _pass_at_k(numbers: DataFrame) -> dict[str, dict[str, float]]:
    """pass@k after RL by set and k."""
    found = numbers[(numbers.stage == AFTER) & numbers.metric.str.startswith(PASS_AT)]
    passed: dict[str, dict[str, float]] = {}
    for name, metric, value in zip(found.set, found.metric, found.value, strict=True):
        passed.setdefault(name, {})[metric.removeprefix(PASS_AT)] = value
    return passed


def _pair_accuracy(model: Path) -> dict[str, Any] | None:
    """What a reward model gets right on the pairs held out; None where there is no such model."""
    accuracy = model / ACCURACY_FILE
    return read_json(accuracy) if accuracy.is_file() else None


def _curator(numbers: DataFrame) -> dict[str, float | None]:
    """What the curator did, and what it was worth: counts, accuracy on new groups, cosines, wrong rewards found."""
    counts = {name: series_of(numbers, name).values for name in _COUNTS}
    cosines = agreement_over_run(numbers)
    flags = marked_rows(numbers)
    ranking = whole_run(areas_of(numbers)).get(OWN_SCORE)
    return {
        **{name: float(values.sum()) if len(values) else None for name, values in counts.items()},
        **accuracy_on_new_groups(numbers).as_metrics("new_group_accuracy"),
        "chance_accuracy": mean(series_of(numbers, "chance_accuracy").values),
        **cosines.applied.as_metrics(APPLIED),
        OBSERVED: cosines.observed.estimate,
        "auroc": None if ranking is None else ranking.auroc,
        "auroc_generations": 0 if ranking is None else ranking.generations,
        "corrupted_share": flags.base_rate,
        "corrupted_share_of_anomalous": flags.precision,
    }


# --- the closing lines ------------------------------------------------------------------------------------------------


def print_summary(console: Console, summary: Mapping[str, Any], curator: str, folder: Path) -> None:
    """Prints what the run came to on its evaluation sets, then what its training and its curator did."""
    for sentence in _findings(summary) or ["No evaluation set."]:
        say_paragraph(console, sentence, style="bold")
    fallen = [Fall(**fall) for fall in summary.get("fell_below_start", {}).values()]
    for fall in fallen:
        say_paragraph(console, f"Warning: {fall}", style="yellow")
    if fallen:
        say_paragraph(console, REMEDY, style="yellow")
    rows = [
        (f"mean reward, first {_ENDS} updates", decimals(summary["reward_first"])),
        (f"mean reward, last {_ENDS} updates", decimals(summary["reward_last"])),
        *_curator_rows(summary["curator"]),
    ]
    title = f"{summary['steps']:,} updates on {summary['generations']:,} generations, curator {curator}"
    print_rows(console, title, ("quantity", "value"), rows)
    say(console, f"Report: {RunFolder(folder).report}")


def _curator_rows(numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the curator did and what its flags were worth, with 95% intervals where there are any; no row for what is
    unknown or never happened."""
    rows = []
    for name, entry, write in _ROWS:
        value = numbers.get(entry)
        if value is None or value == 0:
            continue
        low = numbers.get(f"{entry}_low")
        high = numbers.get(f"{entry}_high")
        interval = "" if low is None or high is None else f" ({write(low)} to {write(high)})"
        rows.append((name, f"{write(value)}{interval}"))
    return rows


def _findings(summary: Mapping[str, Any]) -> list[str]:
    """A sentence for each evaluation set: accuracy before and after RL, or gold and proxy reward; then pass@k."""
    accuracies = summary["accuracy"][AFTER]
    sentences = []
    for name in accuracies:
        change = _change(summary, "accuracy", name, percent)
        sentences.append(f"Accuracy on {name} {change}{_accuracy_interval(summary, name)}.")
    for name in summary["gold_utility"][AFTER]:
        sentences.append(f"The true (gold) reward on {name} {_change(summary, 'gold_utility', name, decimals)}.")
    for name in summary["reward"][AFTER]:
        # The reward of a set with an accuracy is the accuracy.
        if name not in accuracies:
            sentences.append(f"The proxy reward on {name} {_change(summary, 'reward', name, decimals)}.")
    for name, passed in summary["pass_at_k"].items():
        if len(passed) > 1:
            values = ", ".join(f"{percent(value)} at k = {k}" for k, value in passed.items())
            sentences.append(f"pass@k after RL on {name}: {values}.")
    return sentences


def _change(summary: Mapping[str, Any], key: str, name: str, write: Callable[[float], str]) -> str:
    """How a number of an evaluation set changed by RL, in words."""
    before = summary[key][BEFORE].get(name)
    after = summary[key][AFTER][name]
    return f"is {write(after)} after RL" if before is None else f"went from {write(before)} to {write(after)}"


def _accuracy_interval(summary: Mapping[str, Any], name: str) -> str:
    """The 95% interval after RL over the problems of a set, in brackets; empty where it is not known."""
    low = summary.get("accuracy_low", {}).get(AFTER, {}).get(name)
    high = summary.get("accuracy_high", {}).get(AFTER, {}).get(name)
    return "" if low is None else f" (95% interval over problems {percent(low)} to {percent(high)})"
