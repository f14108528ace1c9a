"""What `geoalign audit` says on the terminal, and where `--fail-above` makes it fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.analysis.audited import audited
from geoalign.lab.analysis.grouping import grouping_remarks, grouping_words, sizes_lines
from geoalign.lab.audit.steps import NO_CONSENSUS
from geoalign.lab.tasks.row_files import row_name
from geoalign.lab.terminal import Console, say
from geoalign.text import quote

# Rows and prompts that are named; all of them stand in the summary.
_SHOWN = 3


def show_result(console: Console, summary: Mapping[str, Any], page: Path) -> None:
    """What matters in about ten lines: warnings, counts, the verifier, what to mistrust, the next command."""
    for line in _warnings(summary):
        say(console, line, "yellow")
    for line in _findings(summary):
        say(console, line)
    say(console, f"Written to {page.parent}; the page: {page}")
    if (following := summary["next"]) is not None:
        say(console, f"Next, {following['when']}: {following['command']}")


def _warnings(summary: Mapping[str, Any]) -> Iterator[str]:
    counts, hidden = summary["counts"], summary["hidden"]
    for entry in summary["skipped"][:_SHOWN]:
        name = f"{entry['field']}: " if entry["field"] else ""
        yield f"Skipped: {row_name(Path(entry['file']), entry['line'])}: {name}{entry['reason']}"
    if counts["skipped"] > _SHOWN:
        yield f"... {counts['skipped']} rows were skipped; all are listed in summary.json"
    yield from grouping_remarks(summary)
    yield from sizes_lines(summary)
    for entry in (repeated := summary["repeated"])[:_SHOWN]:
        yield f"Left out: {entry['file']}: the rollouts of {entry['same_as']} again ({len(repeated):,} files in all)"
    if without := sum(entry.get("without_answer") or 0 for entry in hidden["files"]):
        yield (
            f"No final answer in {without:,} of {counts['rows']:,} responses: their state is that of hidden_position "
            "'predicting'."
        )


def _findings(summary: Mapping[str, Any]) -> Iterator[str]:
    counts, labels, said = summary["counts"], summary["labels"], audited(summary)
    yield (
        f"{counts['rows']:,} rollouts in {counts['groups']:,} groups ({grouping_words(summary)}), "
        f"{counts['groups_without_pairs']:,} of them with equal rewards alone; "
        f"{counts['unscored']:,} rollouts without a reward."
    )
    yield from said.verifier
    share = counts["flagged"] / counts["scored"] if counts["scored"] else 0.0
    changes = {"replaced": "replaced", "left_out": "left out", "zero_weighted": "weight 0"}
    changed = [f"{name}: {counts[key]:,}" for key, name in changes.items() if counts[key]]
    yield "; ".join([f"Rewards to check first: {counts['flagged']:,} ({share:.1%} of those scored)", *changed]) + "."
    if labels["files"]:
        yield (
            f"Labels: {labels['labelled']:,} rewards are known to be true; {labels['without_label']:,} rows of "
            f"{', '.join(labels['files'])} have no label."
        )
    groups = [
        f"{prompt['group']} of step {prompt['step']} ("
        + ("" if prompt["answer"] is None else f"{quote(prompt['answer'], 40)}, ")
        + f"{prompt['count']} times, {prompt['share']:.0%})"
        for prompt in said.prompts[:_SHOWN]
    ]
    if said.refused:
        look = f" Look at the gold answer, or the policy makes a common mistake: group {', '.join(groups)}."
        yield said.refused + (look if groups else "")
    if said.consensus.level != "unknown" or summary["consensus"].get("reason") != NO_CONSENSUS:
        yield f"Consensus: {said.consensus.headline} {said.consensus.text}"
    if "note" in summary["hidden"]:
        yield summary["hidden"]["note"]
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
            raise ConfigError(f"--fail-above: expected {' or '.join(RATES)} once, in [0, 1); got {quote(text)}")
        bounds[name] = bound
    return bounds


def bounds_kept(summary: Mapping[str, Any], bounds: Mapping[str, float]) -> tuple[int, list[str]]:
    """The exit code, and a sentence for each bound exceeded or not to be checked: 3 where a whole interval lies above
    its bound, else 4 where a rate cannot be told, lest a job pass that checked nothing, else 0."""
    verifier = summary["verifier"]
    rates = verifier.get("rates") or {}
    why = verifier.get("reason") or f"Nothing bounds it, and {verifier.get('doubt') or 'no model tells it'}."
    code, said = 0, []
    for name, bound in bounds.items():
        ends = [rates.get(f"{name}_rate", {}).get(end) for end in ("low", "high")]
        low, high = (math.nan if end is None else end for end in ends)
        if low > bound:
            code = 3
            said.append(f"{name}: at least {low:.1%}, above {bound:.1%}")
        elif not high - low < 1:  # NaN, or from 0 to 1
            code = code or 4
            said.append(f"{name}: whether it is above {bound:.1%} cannot be told. {why}")
    return code, said
