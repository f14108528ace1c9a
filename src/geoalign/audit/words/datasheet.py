"""What an audit says of the data set that it exported: a sentence, and the datasheet beside the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.audit.words.golds import doubt_of_ranking
from geoalign.audit.words.verifier import says_nothing
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


def exported(summary: Summary) -> str:
    """What stands in the exported data set; empty where none was asked for."""
    export = summary.get("export")
    if not export:
        return ""
    file = Path(export["file"])
    prompts = counted(export["prompts"], "prompt")
    known = f"{file.with_name('datasheet.md')} says what is known of it."
    if _was_kept(export):
        return f"{file} holds {prompts}. {_kept(export)} {known}"
    changed = counted(export["changed"], "gold answer", "gold answers")
    what = "replaced by the proposed answer" if export["relabelled"] else "left out with their prompts"
    return f"{file} holds {prompts}; {changed} that looked wrong were {what}. {known}"


def _was_kept(export: Mapping[str, Any]) -> bool:
    """Whether gold answers look wrong by a ranking that is not to be trusted, and therefore stand in the export."""
    return export["suspicious"] > export["changed"]


def _kept(export: Mapping[str, Any]) -> str:
    """That these gold answers stand in the export, and why."""
    what = "replaced" if export["relabelled"] else "left out"
    return f"No gold answer was {what}, for the ranking by which some look wrong is not to be trusted here."


def datasheet(summary: Summary) -> str:
    """The datasheet of an exported data set, as Markdown: rates, how each is known, on how many rows, what is not."""
    sections = {
        "What is in it": _content(summary),
        "How often the verifier errs": _error_rates(summary["verifier"]),
        "How the gold answers were judged": _judged_golds(summary),
        "What is not known": _not_known(summary),
    }
    lines = [f"# Data sheet of {Path(summary['export']['file']).name}", ""]
    lines.append(f"Written by GeoAlign {summary['geoalign']} with seed {summary['seed']}.")
    for heading, content in sections.items():
        lines += ["", f"## {heading}", "", *content]
    return "\n".join(lines) + "\n"


def _content(summary: Summary) -> list[str]:
    """How many prompts the data set has, which were left out or changed, and from which files it was made."""
    export = summary["export"]
    kind = "were given the proposed answer" if export["relabelled"] else "were left out"
    changed = f"{counted(export['changed'], 'prompt')} with a score of at least {export['above']:g} {kind}."
    if _was_kept(export):
        changed = _kept(export)
    rollouts = counted(summary["counts"]["rows"], "rollout")
    lines = [
        f"- {counted(export['prompts'], 'prompt')}, one a line, with their gold answers.",
        f"- {changed}",
        f"- {counted(export['without_gold'], 'prompt has', 'prompts have')} no gold answer in the rollouts.",
        f"- Read from {rollouts} of {counted(len(summary['inputs']), 'file')}:",
    ]
    files = [f"    - `{entry['file']}`, {counted(entry['rows'], 'rollout')}" for entry in summary["inputs"]]
    return [*lines, *files]


def _error_rates(verifier: Mapping[str, Any]) -> list[str]:
    """A table of both error rates, or why they are not known."""
    rates = verifier.get("rates")
    if not rates:
        return [f"Not known. {verifier.get('reason') or 'Several answers to a prompt may be right.'}"]
    lines = ["| error | 95% interval or bounds | how it is known | rollouts |", "|---|---|---|---|"]
    for name, title in _RATES.items():
        rate = rates[name]
        known = rate["low"] is not None and rate["high"] is not None
        known = known and not says_nothing(rate["low"], rate["high"])
        interval = f"{percent(rate['low'])} to {percent(rate['high'])}" if known else "not known"
        how = _HOW.get(rate["by"], rate["by"]) if known else "-"
        lines.append(f"| {title} | {interval} | {how} | {rate.get('rows', verifier['scored']):,} |")
    return lines


def _judged_golds(summary: Summary) -> list[str]:
    """By what the gold answers were judged, and how far that is to be trusted."""
    found = summary["suspicious_golds"]
    if not found:
        return ["They were not: no answer was judged by a verdict."]
    judged = (
        f"{counted(found['rivalled'], 'prompt has', 'prompts have')} an answer that rivals the gold answer: given "
        "more often than it, and refused. Each has a score, the posterior probability of a model of how right and "
        "wrong answers agree in this file. No person looked at them."
    )
    doubt = doubt_of_ranking(found)
    return [f"{judged} {doubt}" if doubt else judged]


def _not_known(summary: Summary) -> list[str]:
    """What no reader should take from the audit, and the symptoms of a verifier that does not judge."""
    lines = [
        "- Whether a gold answer is wrong that no response contradicts, or that most responses repeat.",
        "- Whether a proposed answer is right: a mistake that the policy makes every time looks like one.",
        "- Errors that the verifier repeats with an answer, beyond the bounds above.",
    ]
    unscored = summary["counts"]["unscored"]
    if unscored:
        lines.append(f"- The reward of {counted(unscored, 'rollout')}.")
    symptoms = [sentence.replace("\n", " ") for sentence in summary["export"]["symptoms"]]
    return [*lines, *(f"- {sentence}" for sentence in symptoms)]
