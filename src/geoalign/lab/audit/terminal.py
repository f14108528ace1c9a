"""What `geoalign audit` says on the terminal, and where `--fail-above` makes it fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.analysis.audited import audited_consensus, audited_verifier
from geoalign.lab.tasks.rows import row_name
from geoalign.lab.terminal import Console, say
from geoalign.shown import shown

# Skipped rows, and prompts, that are named; all of them stand in the summary.
_SHOWN = 5


def show_result(console: Console, summary: Mapping[str, Any], page: Path) -> None:
    """What to look out for, the counts, the consensus in words, and where everything is."""
    say(console, "")
    for line in _warnings(summary):
        say(console, line, "yellow")
    for line in _findings(summary):
        say(console, line)
    say(console, f"Written to {page.parent}; the page: {page}")


def _warnings(summary: Mapping[str, Any]) -> Iterator[str]:
    counts, hidden = summary["counts"], summary["hidden"]
    for entry in summary["skipped"][:_SHOWN]:
        name = f"{entry['field']}: " if entry["field"] else ""
        yield f"Skipped: {row_name(Path(entry['file']), entry['line'])}: {name}{entry['reason']}"
    if counts["skipped"] > _SHOWN:
        yield f"... {counts['skipped']} rows were skipped; all are listed in summary.json"
    for entry in summary["inputs"]:
        sizes = [f"{count:,} of {size}" for size, count in entry["group_sizes"].items()]
        if len(sizes) > 1:
            yield f"Groups of different sizes: {entry['file']}: {', '.join(sizes)} rollouts"
    for entry in summary["repeated"]:
        yield f"Left out: {entry['file']}: the rollouts of {entry['same_as']} again"
    if "note" in hidden:
        yield hidden["note"]
    if without := sum(entry.get("without_answer") or 0 for entry in hidden["files"]):
        yield (
            f"No final answer in {without:,} of {counts['rows']:,} responses: their state is that of hidden_position "
            "'predicting'."
        )


def _findings(summary: Mapping[str, Any]) -> Iterator[str]:
    counts, labels, verdict = summary["counts"], summary["labels"], audited_consensus(summary)
    lines, refused, prompts = audited_verifier(summary)
    yield (
        f"{counts['rows']:,} rollouts in {counts['groups']:,} groups, {counts['groups_without_pairs']:,} of them "
        f"without a pair; {counts['pairs']:,} pairs, {counts['scored']:,} rollouts scored, "
        f"{counts['unscored']:,} without a reward."
    )
    share = counts["flagged"] / counts["scored"] if counts["scored"] else 0.0
    yield (
        f"Flagged: {counts['flagged']:,} ({share:.1%} of those scored); replaced: {counts['replaced']:,}; "
        f"left out: {counts['left_out']:,}; weight 0: {counts['zero_weighted']:,}; "
        f"other rewards: {counts['changed_rewards']:,}."
    )
    if labels["files"]:
        yield (
            f"Labels: {labels['labelled']:,} rewards are known to be true; {labels['without_label']:,} rows of "
            f"{', '.join(labels['files'])} have no label."
        )
    yield f"Consensus: {verdict.headline} {verdict.text}"
    yield from filter(None, (*lines, refused))
    for prompt in prompts[:_SHOWN]:
        answer = "" if prompt["answer"] is None else f" {shown(prompt['answer'])}"
        where = f"group {prompt['group']} of step {prompt['step']}"
        yield f"  Refused: {where}, answer{answer} given {prompt['count']} times ({prompt['share']:.0%})"
    if summary["redacted"]:
        yield "Redacted: no texts were written."


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
