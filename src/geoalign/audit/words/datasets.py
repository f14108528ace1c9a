"""What an audit says of the data set behind the rollouts: gold answers that look wrong, and what was exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.audit.words.verifier import SAYS_NOTHING
from geoalign.console.numbers import counted, percent

Summary = Mapping[str, Any]

_RATES = {
    "false_positive_rate": "Wrong answers that were rewarded",
    "false_negative_rate": "Correct answers that were refused",
}
_HOW = {
    "bounds": "proved, if equal answers share the truth and at most one answer to a prompt is right",
    "model": "estimated by a statistical model, whose errors strike verdicts one by one",
    "checks": "from checked rollouts that were drawn at random",
}


def suspicious_golds(summary: Summary) -> str:
    """How many gold answers look wrong, and what that rests on; empty where none does."""
    found = summary.get("suspicious_golds")
    if not found or not found["suspicious"]:
        return ""
    look = "looks" if found["suspicious"] == 1 else "look"
    return (
        f"{found['suspicious']:,} of {counted(found['problems'], 'gold answer')} {look} wrong: most responses agree on "
        "another answer, which was refused. The score compares how right and wrong answers agree in this file. A "
        "mistake that the model makes every time looks the same, so look at each."
    )


def golds_table(summary: Summary, *, most: int) -> dict[str, list[str]]:
    """The most suspicious prompts as columns, by what stands above them."""
    found = summary.get("suspicious_golds") or {"top": [], "least_score": 1}
    rows = [row for row in found["top"] if row["score"] >= found["least_score"]][:most]
    table = {
        "prompt": [str(row["problem"]) for row in rows],
        "gold": [row["gold"] or "-" for row in rows],
        "proposed": [row["proposed"] or "-" for row in rows],
        "agree": [f"{row['copies']:,} of {row['rollouts']:,}" for row in rows],
        "score": [f"{row['score']:.2f}" for row in rows],
    }
    if any(len(row["votes"]) > 1 for row in rows):
        table["accepted by"] = [accepting(row["votes"]) for row in rows]
    return table


def accepting(votes: Mapping[str, Sequence[int]]) -> str:
    """The other verifiers that accept the proposed answer more often than not."""
    names = [name for name, (accepted, judged) in votes.items() if name != "reward" and 2 * accepted > judged]
    return ", ".join(names) or "none"


def exported(summary: Summary) -> str:
    """What stands in the exported data set; empty where none was asked for."""
    export = summary.get("export")
    if not export:
        return ""
    file = Path(export["file"])
    changed = counted(export["suspicious"], "gold answer", "gold answers")
    what = "replaced by the proposed answer" if export["relabelled"] else "left out with their prompts"
    return (
        f"{file} holds {counted(export['prompts'], 'prompt')}; {changed} that looked wrong were {what}. "
        f"{file.with_name('datasheet.md')} says what is known of it."
    )


def datasheet(summary: Summary) -> str:
    """The datasheet of an exported data set, as Markdown: rates, how each is known, on how many rows, what is not."""
    export = summary["export"]
    counts = summary["counts"]
    verifier = summary["verifier"]
    lines = [f"# Data sheet of {Path(export['file']).name}", ""]
    lines += [f"Written by GeoAlign {summary['geoalign']} with seed {summary['seed']}.", "", "## What is in it", ""]
    lines += [f"- {counted(export['prompts'], 'prompt')}, one a line, with their gold answers."]
    kind = "were given the proposed answer" if export["relabelled"] else "were left out"
    lines += [
        f"- {counted(export['suspicious'], 'prompt')} with a score of at least {export['above']:g} {kind}.",
        f"- {counted(export['without_gold'], 'prompt has', 'prompts have')} no gold answer in the rollouts.",
        f"- Read from {counted(counts['rows'], 'rollout')} of {counted(len(summary['inputs']), 'file')}:",
    ]
    lines += [f"    - `{entry['file']}`, {counted(entry['rows'], 'rollout')}" for entry in summary["inputs"]]
    lines += ["", "## How often the verifier errs", ""]
    rates = verifier.get("rates")
    if rates:
        lines += ["| error | 95% interval or bounds | how it is known | rollouts |", "|---|---|---|---|"]
        for name, title in _RATES.items():
            rate = rates[name]
            known = rate["low"] is not None and rate["high"] is not None
            known = known and not (rate["low"] == 0 and rate["high"] > SAYS_NOTHING)
            interval = f"{percent(rate['low'])} to {percent(rate['high'])}" if known else "not known"
            how = _HOW.get(rate["by"], rate["by"]) if known else "-"
            lines.append(f"| {title} | {interval} | {how} | {rate.get('rows', verifier['scored']):,} |")
    else:
        lines.append(f"Not known. {verifier.get('reason') or 'Several answers to a prompt may be right.'}")
    lines += ["", "## How the gold answers were judged", ""]
    found = summary["suspicious_golds"]
    if found:
        lines.append(
            f"{counted(found['rivalled'], 'prompt has', 'prompts have')} an answer that rivals the gold answer: given "
            "more often than it, and refused. Each has a score, the posterior probability of a model of how right and "
            "wrong answers agree in this file. No person looked at them."
        )
    else:
        lines.append("They were not: the rollouts have no gold answers.")
    lines += ["", "## What is not known", ""]
    lines += [
        "- Whether a gold answer is wrong that no response contradicts, or that most responses repeat.",
        "- Whether a proposed answer is right: a mistake that the policy makes every time looks like one.",
        "- Errors that the verifier repeats with an answer, beyond the bounds above.",
    ]
    if counts["unscored"]:
        lines.append(f"- The reward of {counted(counts['unscored'], 'rollout')}.")
    lines += [f"- {_plain(sentence)}" for sentence in export["symptoms"]]
    return "\n".join(lines) + "\n"


def _plain(sentence: str) -> str:
    return sentence.replace("\n", " ")
