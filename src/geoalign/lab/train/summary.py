"""The summary of a run: the numbers of `summary.json` and what is printed of them at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from geoalign.console.numbers import decimals, percent, whole
from geoalign.console.terminal import Console, print_rows, say, say_paragraph
from geoalign.files.json_files import finite, read_json, read_lines
from geoalign.lab.models.accuracy import mean_of_known
from geoalign.lab.runs.decline import REMEDY, Fall, last_falls
from geoalign.lab.runs.detection import Tally, mean_ranking, rankings_of, tally_of
from geoalign.lab.runs.folder import ACCURACY_FILE, RunFolder
from geoalign.lab.runs.logged import APPLIED, OBSERVED, accuracy_on_new_groups, agreement
from geoalign.lab.runs.reading import parse_evaluation
from geoalign.lab.runs.rollouts import read_rollouts

_PREFIX = "geoalign/"
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
    lines = [line for line in read_lines(folder.metrics) if line.get("stage") == "rl"]
    evaluations = read_lines(folder.evaluation)
    parsed = [parse_evaluation(line) for line in evaluations]
    curated = [line for line in lines if any(key.startswith(_PREFIX) for key in line)]
    new_groups = (f"{_PREFIX}new_group_accuracy{end}" for end in ("", "_low", "_high"))
    cosines = agreement(*(_values(curated, _PREFIX + name) for name in (APPLIED, OBSERVED)))
    summary = {
        "steps": max((line["step"] for line in lines), default=0),
        "generations": len(curated),
        "accuracy": _evaluations(evaluations, "accuracy"),
        "accuracy_low": _evaluations(evaluations, "accuracy_low"),
        "accuracy_high": _evaluations(evaluations, "accuracy_high"),
        "fell_below_start": {fall.set: asdict(fall) for fall in last_falls(parsed)},
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
            **accuracy_on_new_groups(*(_values(curated, key) for key in new_groups)).named("new_group_accuracy"),
            "chance_accuracy": mean_of_known(_values(curated, f"{_PREFIX}chance_accuracy")),
            **cosines.applied.named(APPLIED),
            OBSERVED: cosines.observed.estimate,
            **detection(folder.rollouts),
        },
    }
    return finite(summary)


def _pair_accuracy(model: Path) -> dict[str, Any] | None:
    return read_json(accuracy) if (accuracy := model / ACCURACY_FILE).is_file() else None


def detection(rollouts: Path) -> dict[str, float | int | None]:
    """How the scores rank the rollouts whose reward was corrupted, where that is known: the mean AUROC over
    generations, the share of corrupted rewards among the anomalous rollouts of the whole run, beside their share among
    the rollouts in a pair (`geoalign.lab.runs.detection`)."""
    rankings, counts = [], Tally()
    for step in read_rollouts(rollouts):
        counts += tally_of(step, step.anomalous)
        rankings.append(rankings_of(step)["score"])
    mean, generations = mean_ranking(rankings)
    found = {
        "auroc": mean.auroc,
        "auroc_generations": generations,
        "corrupted_share": counts.base_rate,
        "corrupted_share_of_anomalous": counts.precision,
    }
    return finite(found)


def print_summary(console: Console, summary: dict[str, Any], curator: str, folder: Path) -> None:
    """Prints what the run came to on its evaluation sets, then what its training and its curator did."""
    findings = _findings(summary)
    for sentence in findings or ["No evaluation set."]:
        say_paragraph(console, sentence, style="bold")
    fallen = [Fall(**fall) for fall in summary.get("fell_below_start", {}).values()]
    for fall in fallen:
        say_paragraph(console, f"Warning: {fall}", style="yellow")
    if fallen:
        say_paragraph(console, REMEDY, style="yellow")
    rows = [
        ("mean reward, first 10 updates", decimals(summary["reward_first"])),
        ("mean reward, last 10 updates", decimals(summary["reward_last"])),
        *_curator_rows(summary["curator"]),
    ]
    title = f"{summary['steps']:,} updates on {summary['generations']:,} generations, curator {curator}"
    print_rows(console, title, ("quantity", "value"), rows)
    say(console, f"Report: {RunFolder(folder).report}")


def _evaluations(lines: Sequence[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    """The values of one key by stage and set, where there are any."""
    return {
        stage: {line["set"]: line[key] for line in lines if line["stage"] == stage and line.get(key) is not None}
        for stage in ("before_rl", "after_rl")
    }


def _curator_rows(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """What the curator did and what its flags were worth, with 95% intervals where there are any; no row for what is
    unknown or never happened."""
    rows = []
    for name, entry, write in _ROWS:
        value = numbers.get(entry)
        if value is None or value == 0:
            continue
        low, high = (numbers.get(f"{entry}_{end}") for end in ("low", "high"))
        interval = "" if low is None or high is None else f" ({write(low)} to {write(high)})"
        rows.append((name, f"{write(value)}{interval}"))
    return rows


def _findings(summary: dict[str, Any]) -> list[str]:
    """A sentence for each evaluation set: accuracy before and after RL, or gold and proxy reward; then pass@k."""
    accuracies = summary["accuracy"]["after_rl"]
    sentences = []
    for name in accuracies:
        change = _change(summary, "accuracy", name, percent)
        sentences.append(f"Accuracy on {name} {change}{_accuracy_interval(summary, name)}.")
    for name in summary["gold_utility"]["after_rl"]:
        sentences.append(f"The true (gold) reward on {name} {_change(summary, 'gold_utility', name, decimals)}.")
    for name in summary["reward"]["after_rl"]:
        # The reward of a set with an accuracy is the accuracy.
        if name not in accuracies:
            sentences.append(f"The proxy reward on {name} {_change(summary, 'reward', name, decimals)}.")
    for name, passed in summary["pass_at_k"].items():
        if len(passed) > 1:
            values = ", ".join(f"{percent(value)} at k = {k}" for k, value in passed.items())
            sentences.append(f"pass@k after RL on {name}: {values}.")
    return sentences


def _change(summary: dict[str, Any], key: str, name: str, write: Callable[[float], str]) -> str:
    before, after = (summary[key][stage].get(name) for stage in ("before_rl", "after_rl"))
    return f"is {write(after)} after RL" if before is None else f"went from {write(before)} to {write(after)}"


def _accuracy_interval(summary: dict[str, Any], name: str) -> str:
    """The 95% interval after RL over the problems of a set, where it is known: runs of earlier versions have none."""
    low, high = (summary.get(f"accuracy_{end}", {}).get("after_rl", {}).get(name) for end in ("low", "high"))
    return "" if low is None else f" (95% interval over problems {percent(low)} to {percent(high)})"


def _values(lines: Sequence[dict[str, Any]], key: str) -> list[float]:
    return [value for line in lines if isinstance(value := line.get(key), (int, float))]
