"""The summary of a run: the numbers of `summary.json` and the closing table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from geoalign.lab.analysis.consensus import APPLIED, OBSERVED, accuracy_on_new_groups, agreement
from geoalign.lab.analysis.decline import REMEDY, Fall, last_falls
from geoalign.lab.analysis.detection import Tally, mean_ranking, rankings_of, tally_of
from geoalign.lab.evaluation.scores import mean_of_known
from geoalign.lab.numbers import decimals, percent
from geoalign.lab.store.json_files import finite, read_json, read_lines
from geoalign.lab.store.read_run import parse_evaluation
from geoalign.lab.store.rollouts import read_rollouts
from geoalign.lab.store.run_folder import ACCURACY_FILE, RunFolder
from geoalign.lab.terminal import Console, say
from geoalign.text import DASH

_PREFIX = "geoalign/"
# Added up over the run.
_COUNTS = ("pairs", "suspects", "anomalous", "replaced", "groups_without_donor", "single_groups", "tied_groups")
# The curator's rows of the closing table; one with an unknown number is left out, as is a count of nothing.
_ROWS = {
    "pairs compared": "{pairs:,.0f}",
    "rollouts flagged": "{anomalous:,.0f}",
    "rollouts replaced": "{replaced:,.0f}",
    "groups left without a donor": "{groups_without_donor:,.0f}",
    "accuracy on new groups, mean (95% interval; chance)": (
        "{new_group_accuracy:.2f} ({new_group_accuracy_low:.2f} to {new_group_accuracy_high:.2f}; "
        "{chance_accuracy:.2f})"
    ),
    "AUROC of the score for corrupted rewards (chance 0.50)": "{auroc:.2f}",
    "corrupted among the flagged; among all in a pair": "{corrupted_share_of_anomalous:.1%}; {corrupted_share:.1%}",
    "cosine with the true rewards' advantages (95% interval; as the rewards came)": (
        f"{{{APPLIED}:.3f}} ({{{APPLIED}_low:.3f}} to {{{APPLIED}_high:.3f}}; {{{OBSERVED}:.3f}})"
    ),
}


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
    the rollouts in a pair (`geoalign.lab.analysis.detection`)."""
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
    """Prints the closing table."""
    table = Table(title="What came out", title_justify="left", show_header=False)
    table.add_column("quantity")
    table.add_column("value", justify="right")
    ends = "; ".join(decimals(summary[f"reward_{end}"]) for end in ("first", "last"))
    for row in (
        *_evaluation_rows(summary),
        ("mean reward, first and last 10 updates", ends),
        ("updates; generations", f"{summary['steps']}; {summary['generations']}"),
        *(
            (f"{curator}: {label}", said)
            for label, form in _ROWS.items()
            if (said := _filled(form, summary["curator"])) not in (None, "0")
        ),
    ):
        table.add_row(*row)
    console.print(table)
    fallen = [Fall(**fall) for fall in summary.get("fell_below_start", {}).values()]
    for fall in fallen:
        say(console, f"Warning: {fall}", "yellow")
    if fallen:
        say(console, REMEDY, "yellow")
    console.print(f"Report: {RunFolder(folder).report}", soft_wrap=True, highlight=False)


def _evaluations(lines: Sequence[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    """The values of one key by stage and set, where there are any."""
    return {
        stage: {line["set"]: line[key] for line in lines if line["stage"] == stage and line.get(key) is not None}
        for stage in ("before_rl", "after_rl")
    }


def _evaluation_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Accuracy before and after RL, or gold utility and the proxy reward; pass@k where known."""
    rows = []
    kinds = (
        ("accuracy", "accuracy", percent),
        ("gold_utility", "gold utility", decimals),
        ("reward", "proxy reward", decimals),
    )
    for key, label, shown in kinds:
        before, after = (summary[key][stage] for stage in ("before_rl", "after_rl"))
        for name in after:
            if key != "reward" or name not in summary["accuracy"]["after_rl"]:
                rows.append((f"{label} before; after RL ({name})", f"{shown(before.get(name))}; {shown(after[name])}"))
            if key == "accuracy":
                rows += _interval_row(summary, name)
    for name, passed in summary["pass_at_k"].items():
        if len(passed) > 1:
            rows.append((f"pass@{', '.join(passed)} after RL ({name})", "; ".join(map(percent, passed.values()))))
    return rows or [("accuracy", "no evaluation set")]


def _interval_row(summary: dict[str, Any], name: str) -> list[tuple[str, str]]:
    """The 95% intervals of a set's accuracy before and after RL, where they are known: runs of earlier versions have
    none."""
    ends = []
    for stage in ("before_rl", "after_rl"):
        low, high = (summary.get(f"accuracy_{end}", {}).get(stage, {}).get(name) for end in ("low", "high"))
        ends.append(DASH if low is None else f"{percent(low)} to {percent(high)}")
    return [] if ends == [DASH, DASH] else [(f"95% interval over problems ({name})", "; ".join(ends))]


def _filled(template: str, values: dict[str, Any]) -> str | None:
    """The template with these values; None where one of them is not known."""
    try:
        return template.format(**values)
    except TypeError:
        return None


def _values(lines: Sequence[dict[str, Any]], key: str) -> list[float]:
    return [value for line in lines if isinstance(value := line.get(key), (int, float))]
