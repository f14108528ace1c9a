"""What `geoalign audit` says on the terminal, and where `--fail-above` makes it fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.analysis.consensus import CHANCE, level_of
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.analysis.verifier import doubtful_prompts, refused_line, verifier_lines
from geoalign.lab.tasks.rows import row_name
from geoalign.lab.terminal import Console, say
from geoalign.shown import shown

# Skipped rows, and prompts, that are named; all of them stand in the summary.
_SHOWN = 5


def show_result(console: Console, summary: Mapping[str, Any], folder: Path, report: Path) -> None:
    """The counts, the consensus in words, and where everything is."""
    counts = summary["counts"]
    say(console, "")
    for entry in summary["skipped"][:_SHOWN]:
        name = f"{entry['field']}: " if entry["field"] else ""
        say(console, f"Skipped: {row_name(Path(entry['file']), entry['line'])}: {name}{entry['reason']}", "yellow")
    if counts["skipped"] > _SHOWN:
        say(console, f"... {counts['skipped']} rows were skipped; all are listed in summary.json", "yellow")
    for entry in summary["inputs"]:
        sizes = [f"{count:,} of {size}" for size, count in entry["group_sizes"].items()]
        if len(sizes) > 1:
            say(console, f"Groups of different sizes: {entry['file']}: {', '.join(sizes)} rollouts", "yellow")
    for entry in summary["repeated"]:
        say(console, f"Left out: {entry['file']}: the rollouts of {entry['same_as']} again", "yellow")
    say(
        console,
        f"{counts['rows']:,} rollouts in {counts['groups']:,} groups, {counts['groups_without_pairs']:,} of them "
        f"without a pair; {counts['pairs']:,} pairs, {counts['scored']:,} rollouts scored, "
        f"{counts['unscored']:,} without a reward.",
    )
    share = counts["flagged"] / counts["scored"] if counts["scored"] else 0.0
    say(
        console,
        f"Flagged: {counts['flagged']:,} ({share:.1%} of those scored); replaced: {counts['replaced']:,}; "
        f"left out: {counts['left_out']:,}; weight 0: {counts['zero_weighted']:,}; "
        f"other rewards: {counts['changed_rewards']:,}.",
    )
    if (labels := summary["labels"])["files"]:
        say(
            console,
            f"Labels: {labels['labelled']:,} rewards are known to be true; {labels['without_label']:,} rows of "
            f"{', '.join(labels['files'])} have no label.",
        )
    if "note" in summary["hidden"]:
        say(console, summary["hidden"]["note"], "yellow")
    if without := sum(entry.get("without_answer") or 0 for entry in summary["hidden"]["files"]):
        say(
            console,
            f"No final answer in {without:,} of {counts['rows']:,} responses: their state is that of hidden_position "
            "'predicting'.",
            "yellow",
        )
    say(console, consensus_in_words(summary["consensus"]))
    for line in (*verifier_lines(summary), refused_line(summary)):
        if line:
            say(console, line)
    for prompt in doubtful_prompts(summary)[:_SHOWN]:
        answer = "" if prompt["answer"] is None else f" {shown(prompt['answer'])}"
        where = f"group {prompt['group']} of step {prompt['step']}"
        say(console, f"  Refused: {where}, answer{answer} given {prompt['count']} times ({prompt['share']:.0%})")
    if summary["redacted"]:
        say(console, "Redacted: no texts were written.")
    say(console, f"Written to {folder}; the page: {report}")


def consensus_in_words(consensus: Mapping[str, Any]) -> str:
    """Whether the others' consensus orders the two responses of a pair rightly, on groups kept apart."""
    accuracy = consensus["new_group_accuracy"]
    if accuracy is None or math.isnan(accuracy):
        return f"Consensus: unknown. {consensus.get('reason', '')}".strip()
    low, high = consensus["new_group_accuracy_low"], consensus["new_group_accuracy_high"]
    span = f"{accuracy:.1%} of pairs in {consensus['groups']:,} new groups ({low:.1%} to {high:.1%}; chance 50%)"
    level = level_of(Interval(accuracy, low, high), CHANCE)
    if level == "yes":
        return f"Consensus: yes. It orders {span}."
    if level == "against":
        return f"Consensus: against chance. It orders {span}: look at the rewards' sign."
    return f"Consensus: none to be seen. It orders {span}: what is flagged is flagged by chance."


# --- bounds on the verifier's error rates, for a job that is to fail where they are exceeded --------------------------

RATES = ("false_positive", "false_negative")


def parse_bounds(texts: Sequence[str]) -> dict[str, float]:
    """`RATE=BOUND` of `--fail-above`, by rate; ConfigError for another rate, no number between 0 and 1, one twice."""
    bounds: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            bound = float(number)
        except ValueError:
            bound = -1.0
        if name not in RATES or not 0 <= bound < 1 or name in bounds:
            raise ConfigError(f"--fail-above: expected {' or '.join(RATES)} once, =0 to 1; got {shown(text)}")
        bounds[name] = bound
    return bounds


def exceeded(summary: Mapping[str, Any], bounds: Mapping[str, float]) -> list[str]:
    """A sentence for each rate whose whole interval lies above its bound; a rate that cannot be told is not above."""
    rates = summary["verifier"].get("rates") or {}
    found = []
    for name, bound in bounds.items():
        low = rates.get(f"{name}_rate", {}).get("low")
        if low is not None and low > bound:
            found.append(f"{name}: at least {low:.1%}, above {bound:.1%}")
    return found
