"""What a run came to: the numbers of `summary.json` and the closing table on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from geoalign.lab.analysis.consensus import APPLIED, OBSERVED, accuracy_on_new_groups, agreement
from geoalign.lab.analysis.detection import Tally, mean_ranking, rankings_of, tally_of
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.evaluation.scores import mean_of_known
from geoalign.lab.store.json_files import read_json, read_lines
from geoalign.lab.store.rollouts import read_rollouts
from geoalign.lab.store.run_folder import ACCURACY_FILE, RunFolder
from geoalign.lab.terminal import Console
from geoalign.lab.text import decimals, percent, whole

_PREFIX = "geoalign/"
# Added up over the run.
_COUNTS = ("pairs", "suspects", "anomalous", "replaced", "groups_without_donor", "single_groups", "tied_groups")


def summarise(folder: RunFolder) -> dict[str, Any]:
    """The numbers of a run, read from its own files, so that a resumed run has the same as an undisturbed one."""
    lines = [line for line in read_lines(folder.metrics) if line.get("stage") == "rl"]
    evaluations = read_lines(folder.evaluation)
    curated = [line for line in lines if any(key.startswith(_PREFIX) for key in line)]
    new_groups = (f"{_PREFIX}new_group_accuracy{end}" for end in ("", "_low", "_high"))
    cosines = agreement(*(_values(curated, _PREFIX + name) for name in (APPLIED, OBSERVED)))
    return {
        "steps": max((line["step"] for line in lines), default=0),
        "generations": len(curated),
        "accuracy": _evaluations(evaluations, "accuracy"),
        "reward": _evaluations(evaluations, "reward"),
        "gold_utility": _evaluations(evaluations, "gold_utility"),
        "pass_at_k": _evaluations(evaluations, "pass_at_k")["after_rl"],
        "answers": _evaluations(evaluations, "count"),
        "reward_model": _pair_accuracy(folder.reward_model),
        "gold_model": _pair_accuracy(folder.gold_model),
        "reward_first": mean_of_known(_values(lines[:10], "reward")),
        "reward_last": mean_of_known(_values(lines[-10:], "reward")),
        "curator": {
            **{name: sum(values) if (values := _values(curated, _PREFIX + name)) else None for name in _COUNTS},
            **_interval("new_group_accuracy", accuracy_on_new_groups(*(_values(curated, key) for key in new_groups))),
            "chance_accuracy": mean_of_known(_values(curated, f"{_PREFIX}chance_accuracy")),
            **_interval(APPLIED, cosines.applied),
            OBSERVED: _defined(cosines.observed.estimate),
            **detection(folder.rollouts),
        },
    }


def _pair_accuracy(model: Path) -> dict[str, Any] | None:
    return read_json(accuracy) if (accuracy := model / ACCURACY_FILE).is_file() else None


def _interval(name: str, interval: Interval) -> dict[str, float | None]:
    bounds = {"": interval.estimate, "_low": interval.low, "_high": interval.high}
    return {f"{name}{end}": _defined(value) for end, value in bounds.items()}


def detection(rollouts: Path) -> dict[str, float | int | None]:
    """How the scores rank the rollouts whose reward was corrupted, where that is known: the mean AUROC over
    generations, the share of corrupted rewards among the anomalous rollouts of the whole run, beside their share among
    the rollouts in a pair (`geoalign.lab.analysis.detection`)."""
    rankings, counts = [], Tally()
    for step in read_rollouts(rollouts):
        counts += tally_of(step, step.anomalous)
        rankings.append(rankings_of(step)["score"])
    mean, generations = mean_ranking(rankings)
    return {
        "auroc": _defined(mean.auroc),
        "auroc_generations": generations,
        "corrupted_share": _defined(counts.base_rate),
        "corrupted_share_of_anomalous": _defined(counts.precision),
    }


def print_summary(console: Console, summary: dict[str, Any], curator: str, folder: Path) -> None:
    """Prints the closing table."""
    table = Table(title="What came out", title_justify="left", show_header=False)
    table.add_column("quantity")
    table.add_column("value", justify="right")
    for label, value in _evaluation_rows(summary):
        table.add_row(label, value)
    table.add_row("mean reward, first and last 10 updates", _pair(summary["reward_first"], summary["reward_last"]))
    table.add_row("updates; generations", f"{summary['steps']}; {summary['generations']}")
    for label, value in _curator_rows(summary["curator"]):
        table.add_row(f"{curator}: {label}", value)
    console.print(table)
    console.print(f"Report: {RunFolder(folder).report}", soft_wrap=True, highlight=False)


def _evaluations(lines: Sequence[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    """The values of one key by stage and set, where there are any."""
    return {
        stage: {line["set"]: line[key] for line in lines if line["stage"] == stage and line.get(key) is not None}
        for stage in ("before_rl", "after_rl")
    }


def _evaluation_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Accuracy before and after RL, or proxy reward where there is none; gold utility and pass@k where known."""

    def values(key: str, name: str) -> list[Any]:
        return [summary[key][stage].get(name) for stage in ("before_rl", "after_rl")]

    rows = []
    for name in dict.fromkeys([*summary["accuracy"]["after_rl"], *summary["reward"]["after_rl"]]):
        binary = name in summary["accuracy"]["after_rl"]
        label, shown = ("accuracy", percent) if binary else ("proxy reward", decimals)
        shares, counts = values("accuracy" if binary else "reward", name), values("answers", name)
        for when, value, count in zip(("before", "after"), shares, counts, strict=True):
            asked = name if count is None else f"{name}, {count} answers"
            rows.append((f"{label} {when} RL ({asked})", shown(value)))
        gold = values("gold_utility", name)
        if gold[1] is not None:
            rows.append((f"gold utility before; after RL ({name})", _pair(*gold)))
        passed = summary["pass_at_k"].get(name, {})
        if len(passed) > 1:
            rows.append((f"pass@{', '.join(passed)} after RL ({name})", "; ".join(map(percent, passed.values()))))
    return rows or [("accuracy", "no evaluation set")]


def _curator_rows(curator: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if curator["pairs"] is not None:
        rows += [
            ("pairs compared", whole(curator["pairs"])),
            ("rollouts flagged", whole(curator["anomalous"])),
            ("rollouts replaced", whole(curator["replaced"])),
            ("groups left without a donor", whole(curator["groups_without_donor"])),
        ]
        known = curator["new_group_accuracy"] is not None
        shown = _around(curator, "new_group_accuracy", "chance_accuracy") if known else "no pairs in two generations"
        rows.append(("accuracy on new groups, mean (95% interval; chance)", shown))
    if curator["auroc"] is not None:
        rows.append(("AUROC of the score for corrupted rewards (chance 0.50)", decimals(curator["auroc"])))
    if curator["corrupted_share_of_anomalous"] is not None:
        rows.append(
            ("corrupted among the flagged; among all in a pair",
             f"{percent(curator['corrupted_share_of_anomalous'])}; {percent(curator['corrupted_share'])}")
        )  # fmt: skip
    if curator[APPLIED] is not None:
        shown = _around(curator, APPLIED, OBSERVED, digits=3)
        rows.append(("cosine with the true rewards' advantages (95% interval; as the rewards came)", shown))
    return rows


def _around(curator: dict[str, Any], name: str, beside: str, digits: int = 2) -> str:
    keys = (name, f"{name}_low", f"{name}_high", beside)
    estimate, low, high, other = (decimals(curator[key], digits) for key in keys)
    return f"{estimate} ({low} to {high}; {other})"


def _values(lines: Sequence[dict[str, Any]], key: str) -> list[float]:
    return [value for line in lines if isinstance(value := line.get(key), (int, float))]


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def _pair(first: float | None, last: float | None) -> str:
    return f"{decimals(first)}; {decimals(last)}"
