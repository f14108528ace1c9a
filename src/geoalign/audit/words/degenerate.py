"""What the symptoms of a verifier that does not judge are called, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geoalign.console.numbers import counted, percent, short
from geoalign.text import one_line

Summary = Mapping[str, Any]

# Symptoms that are told; summary.json has all.
_TOLD = 5


def degenerate(summary: Summary) -> list[str]:
    """A sentence or two for each symptom, those of the whole file first."""
    found = summary.get("degenerate") or []
    sentences = [_SENTENCES[finding["kind"]](finding) for finding in found[:_TOLD]]
    if len(found) > _TOLD:
        sentences.append(f"{counted(len(found) - _TOLD, 'more symptom')} like these stand in summary.json.")
    return sentences


def _of(finding: Mapping[str, Any]) -> str:
    """The part of the file that a finding is about, behind what it is of."""
    return f" of {one_line(finding['where'], 80)}" if finding["where"] else ""


def _one_value(finding: Mapping[str, Any]) -> str:
    parts = finding["parts"]
    said = f"All {finding['rows']:,} rewards{_of(finding)} are {short(parts['value'])}."
    nothing_learnt = "Nothing can be learnt from these rewards."
    if parts["accepts"] is None:
        return f"{said} {nothing_learnt}"
    if parts["accepts"] and parts["differing"]:
        prompts = counted(parts["differing"], "prompt")
        return (
            f"{said} The verifier accepts whatever it is given, or is not asked: on {prompts} it rewarded different "
            "answers, of which one at most is right."
        )
    if parts["accepts"]:
        return f"{said} Either every response is right, or the verifier accepts whatever it is given. {nothing_learnt}"
    if parts["give_gold"]:
        gold = counted(parts["give_gold"], "of these responses gives", "of these responses give")
        return f"{said} The verifier is broken, or is not asked: {gold} the gold answer."
    return (
        f"{said} Either no response is right, or the verifier refuses whatever it is given. No wrong answer was "
        f"rewarded, and every right one, if there is any, was refused. {nothing_learnt}"
    )


def _unscored(finding: Mapping[str, Any]) -> str:
    parts = finding["parts"]
    share = percent(finding["rows"] / parts["of"])
    said = f"{finding['rows']:,} of {parts['of']:,} rollouts{_of(finding)} have no reward ({share})."
    if parts["elsewhere"] is not None:
        said += f" Elsewhere it is {percent(parts['elsewhere'])}."
    return f"{said} Look for exceptions and time-outs of the verifier."


def _tied(finding: Mapping[str, Any]) -> str:
    parts = finding["parts"]
    said = (
        f"The reward{_of(finding)} never differs within a prompt, although the responses to {parts['prompts']:,} "
        "prompts do."
    )
    if parts["at_most_one_right"]:
        return f"{said} It seems to be a reward of the prompt, and GRPO learns nothing from it."
    return (
        f"{said} Either each prompt was solved every time or never, or it is a reward of the prompt. In both cases "
        "GRPO learns nothing from it."
    )


def _length(finding: Mapping[str, Any]) -> str:
    parts = finding["parts"]
    unit = parts["unit"]
    shorter, longer = ("accepted", "refused") if parts["short_accepted"] else ("refused", "accepted")
    return (
        f"The verdict{_of(finding)} depends on the length alone: responses of up to {parts['at_most']:,.0f} {unit} are "
        f"{shorter}, longer ones {longer}{_but(finding)}."
    )


def _truncation(finding: Mapping[str, Any]) -> str:
    cut, others = ("refused", "accepted") if finding["parts"]["truncated_refused"] else ("accepted", "refused")
    return (
        f"The verdict{_of(finding)} depends on truncation alone: truncated responses are {cut}, all others "
        f"{others}{_but(finding)}."
    )


def _but(finding: Mapping[str, Any]) -> str:
    """How many rollouts are exceptions."""
    exceptions = finding["parts"]["exceptions"]
    return f", but for {exceptions:,} of {finding['rows']:,}" if exceptions else f" ({finding['rows']:,} rollouts)"


_SENTENCES = {
    "one_value": _one_value,
    "unscored": _unscored,
    "tied": _tied,
    "length": _length,
    "truncation": _truncation,
}
