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
    """Sentences on the verifier: error rates, contradictions, what a second one said; and on what was trained on."""
    verifier = summary.get("verifier") or {}
    rates = verifier.get("rates") or {}
    forms = (("false_positive_rate", ".1%"), ("false_negative_rate", ".1%"), ("informedness", ".2f"))
    said = [_rate(rates[name], form) for name, form in forms if name in rates]
    lines = []
    if said and all(said) and rates["informedness"]["low"] > -1:  # else they are 0 to 1, which says nothing
        # Of 95% on one side.
        most = [f"{rates[name]['high']:{form}}" for name, form in forms[:2]]
        told = (
            f"By a model of noisy verdicts, the verifier rewards {said[0]} of the wrong answers and refuses {said[1]} "
            f"of the right ones; informedness, 1 less both, is {said[2]}. In brackets 95% intervals over groups."
            if rates["informedness"]["estimate"] < 1
            else f"No verdict contradicts another: of errors that strike each verdict alone, the verifier makes at "
            f"most {most[0]} on wrong answers and {most[1]} on right ones (95% bounds)."
        )
        lines.append(
            f"{told} Errors that it repeats with the answer cannot be seen in its verdicts, nor are they in these "
            "rates: a second verifier would show them, or labels of your own (`label` in flagged.csv, then --labels)."
        )
    elif verifier:
        alike = "Too few verdicts." if said else "No rollout has an answer, and no response got both verdicts."
        reason = groups_of_one(summary) or f"{verifier.get('reason', alike)}{_no_answers(summary)}"
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


def _rate(rate: Mapping[str, float | None], form: str) -> str:
    found = [math.nan if (end := rate[name]) is None else end for name in ("estimate", "low", "high")]
    return "" if any(map(math.isnan, found)) else f"{found[0]:{form}} ({found[1]:{form}} to {found[2]:{form}})"
