"""What an audit's summary says of the consensus, the verifier and gold answers, in words: on terminal and page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from geoalign.lab.analysis.consensus import CHANCE, HEADLINES, Verdict, level_of
from geoalign.lab.analysis.grouping import groups_of_one
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.numbers import ends, percent
from geoalign.text import visible

_WITHOUT = "Flags without a consensus are no better than chance: read them as a sample, not as a verdict."
_ADVICE = {
    "yes": "A flag says that a reward disagrees with this consensus, not that it is wrong.",
    "no": _WITHOUT,
    "against": _WITHOUT,
}


def audited_consensus(summary: Mapping[str, Any]) -> Verdict:
    """Whether the others' consensus orders the two responses of a pair rightly, on groups kept apart."""
    measured = summary.get("consensus") or {}
    accuracy, low, high = (measured.get(f"new_group_accuracy{end}") for end in ("", "_low", "_high"))
    if accuracy is None:
        return Verdict("unknown", "No accuracy on new groups was measured.", visible(measured.get("reason") or ""), 0)
    interval = Interval(accuracy, *(math.nan if end is None else end for end in (low, high)))
    level = level_of(interval, CHANCE)
    text = (
        "On groups it had not been trained on, what the projector learnt told the better response of a pair from the "
        f"worse one in {accuracy:.1%} of pairs (95% interval over {measured['groups']:,} groups: "
        f"{ends(interval, percent)}; chance {CHANCE:.0%}). {_ADVICE.get(level, '')}"
    )
    return Verdict(level, HEADLINES[level], text.strip(), 0)


_MORE = "A second verifier would show more, or labels of your own (`label` in flagged.csv, then --labels)."


class Audited(NamedTuple):
    """The consensus, sentences on the verifier, one on refused answers, and the prompts that it is about, strongest
    agreement first (texts are None where they were left out)."""

    consensus: Verdict
    verifier: list[str]
    refused: str
    prompts: list[dict[str, Any]]


def audited(summary: Mapping[str, Any]) -> Audited:
    """What a summary says, in words."""
    prompts = [{"answer": None, "gold": None, **item} for item in (summary.get("prompts") or {}).get("listed", ())]
    return Audited(audited_consensus(summary), verifier_lines(summary), refused_line(summary), prompts)


def verifier_lines(summary: Mapping[str, Any]) -> list[str]:
    """Sentences on the verifier: what is certain, what a model would guess, contradictions, what a second verifier
    said; and on what was trained on."""
    verifier = summary.get("verifier") or {}
    lines = []
    if verifier.get("rates") and "bounds" not in verifier:
        lines.append("This folder is of an earlier version, whose error rates did not hold: run the audit again.")
    elif verifier.get("rates"):
        told = _certain(verifier)
        if told or not verifier["doubt"]:
            lines += [told] if told else []
            lines.append(_modelled(verifier))
        else:
            why = f"{verifier['doubt'][0].upper()}{verifier['doubt'][1:]}."
            reason = groups_of_one(summary) or f"{why}{_few_answers(verifier)}{_no_answers(summary)}"
            lines.append(f"The verifier's errors cannot be told. {reason}")
    elif verifier.get("answers") == "shared":
        lines.append(_contradicted(verifier))
    elif verifier:
        reason = groups_of_one(summary) or f"{verifier.get('reason', '')}{_no_answers(summary)}"
        lines.append(f"The verifier's errors cannot be told. {reason}")
    both = [
        f"the same {one} to a prompt got both verdicts on {verifier[f'groups_with_{several}_judged_both_ways']:,} of "
        f"{repeated:,} prompts that have one twice"
        for one, several in (("answer", "answers"), ("response", "responses"))
        if (repeated := verifier.get(f"groups_with_repeated_{several}"))
    ]
    lines += [f"Contradictions: {', '.join(both)}."] if both else []
    counts = summary.get("counts") or {}
    if counts.get("trained_on") or counts.get("not_trained_on"):
        yes, no = ([counts[f"{name}trained_on{of}"] for of in ("", "_flagged", "_scored")] for name in ("", "not_"))
        shares = [f"{flagged / max(scored, 1):.1%}" for _, flagged, scored in (yes, no)]
        told = f"{yes[0]:,} of {yes[0] + no[0]:,} generated rollouts were trained on; to mistrust: {shares[0]} of their"
        lines.append(f"{told} {yes[2]:,} rewards, {shares[1]} of the others' {no[2]:,}.")
    if asked := summary.get("appeals"):
        flagged = f"{asked['flagged_after']:,} rewards are to be mistrusted ({asked['flagged_before']:,} before)"
        lines.append(
            f"The second verifier judged {asked['rows']:,} rollouts, identical ones at once ({asked['questions']:,} "
            f"questions, {asked['unanswered']:,} without a verdict, {asked['seconds']:,.1f} s): the rewards of "
            f"{asked['overturned']:,} were wrong, {asked['lowered']:,} of them too high; by its verdicts {flagged}."
        )
    return lines


def _certain(verifier: Mapping[str, Any]) -> str:
    """What the bounds prove of both rates; empty where that is nothing."""
    rates = {
        "false_positive_rate": "wrong answers were rewarded",
        "false_negative_rate": "right answers were refused",
    }
    told, untold = [], []
    for name, what in rates.items():
        low, high = (verifier["bounds"][name][end] for end in ("low", "high"))
        if low is None or (low <= 0 and high >= 1):
            untold.append(what)
        elif high >= 1:
            told.append(f"at least {low:.1%} of the {what}")
        elif low <= 0:
            told.append(f"at most {high:.1%} of the {what}")
        else:
            told.append(f"at least {low:.1%} and at most {high:.1%} of the {what}")
    if errors := verifier["errors_at_least"]:
        told.append(f"at least {errors:,} of the {verifier['scored']:,} rewards are wrong")
    if not told:
        return ""
    proof = "if equal answers to a prompt share the truth and at most one is right"
    sentence = f"Certain, {proof}: {'; '.join(told)}."
    if untold:
        sentence += f" How many of the {' and how many of the '.join(untold)} cannot be told for certain."
    return sentence


def _modelled(verifier: Mapping[str, Any]) -> str:
    """The model's intervals where it may speak; otherwise its guess, and why there is no interval."""
    did = {
        "false_positive_rate": "rewards {} of the wrong answers",
        "false_negative_rate": "refuses {} of the right ones",
    }
    if verifier["doubt"]:
        guesses = [verifier["model"][name]["estimate"] for name in did]
        if not any(guesses):
            return f"A model can tell no more: {verifier['doubt']}. {_MORE}"
        said = [form.format(f"{guess:.1%}") for form, guess in zip(did.values(), guesses, strict=True)]
        return (
            f"A model of errors that strike each verdict by itself would guess that the verifier {' and '.join(said)}. "
            f"It can give no interval: {verifier['doubt']}. {_MORE}"
        )
    rates = verifier["rates"]
    by_model = [name for name in did if rates[name]["by"] == "model"]
    if not by_model:
        return f"A model of errors that strike each verdict by itself tells no more than this. {_MORE}"
    said = [did[name].format(_rate(rates[name], ".1%")) for name in by_model]
    return (
        f"By a model of errors that strike each verdict by itself, the verifier {' and '.join(said)}. In brackets 95% "
        "intervals, with room for repeated errors as far as contradictions between equal answers allow, and for agreed "
        f"answers that are refused though right. {_MORE}"
    )


def _contradicted(verifier: Mapping[str, Any]) -> str:
    """What contradictions alone prove where several answers to a prompt may be right."""
    return (
        f"At least {verifier['errors_at_least']:,} of the {verifier['scored']:,} rewards are wrong: equal answers or "
        "responses to a prompt got both verdicts. As several answers may be right, nothing tells how often the "
        f"verifier errs. {_MORE}"
    )


def _few_answers(verifier: Mapping[str, Any]) -> str:
    """How many answers there are to compare, where most rollouts have none."""
    answered, scored = verifier["answered"], verifier["scored"]
    if not 0 < 2 * answered < scored:
        return ""
    return f" Of {scored:,} rollouts with a reward {answered:,} have an answer that can be read."


def _no_answers(summary: Mapping[str, Any]) -> str:
    """Why there are no answers to compare, where no response has one."""
    if (summary.get("counts") or {}).get("answered", 1):
        return ""
    gold = {field for entry in summary["inputs"] if (field := entry["fields"].get("answer")) is not None}
    read = f"; `{visible(min(gold), 80)}` is read as the gold answer, not as the response's" if gold else ""
    return f" Final answers are read from \\boxed{{...}} in a response, or --field final_answer=NAME{read}."


def refused_line(summary: Mapping[str, Any]) -> str:
    """One sentence on prompts whose agreed answer is always refused; empty where answers are unknown."""
    prompts = summary.get("prompts")
    if not prompts:
        return ""
    count = prompts["refused"]
    return (
        f"On {count:,} prompt{'' if count == 1 else 's'} the rollouts agree on an answer ({prompts['least_count']} or "
        f"more, at least {prompts['least_share']:.0%} of them) that is refused every time."
    )


def _rate(rate: Mapping[str, float], form: str) -> str:
    return f"{rate['estimate']:{form}} ({rate['low']:{form}} to {rate['high']:{form}})"
