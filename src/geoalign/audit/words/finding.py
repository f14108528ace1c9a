"""The first thing that a reader is told: how many rewards look wrong and what that rests on, or why none was judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.audit.two_verdicts import ONE_VERDICT
from geoalign.audit.words.evidence import has_one_verdict, steps_by_states, truths_were_told
from geoalign.audit.words.reading import own_answer_field, reason_of_lone_rollouts
from geoalign.console.numbers import counted, percent
from geoalign.text import enumerated

Summary = Mapping[str, Any]

_NOTHING_TO_COMPARE = (
    "No response was rewarded above another one to its prompt, so neither verdicts nor hidden states can tell which "
    "rewards are wrong."
)
_CHECK_SOME = "Check some rows by hand or with a second verifier, or let another verifier judge all of them."
NO_PROOF = "A flag is a reason to look at a reward, not a proof that it is wrong."


@dataclass(frozen=True)
class Finding:
    """How many rewards look wrong, and what that rests on.

    Attributes:
        level: "flagged", "none" (judged, and nothing stands out) or "unjudged".
    """

    level: str
    headline: str
    reason: str


def finding(summary: Summary) -> Finding:
    """The headline of an audit, and the sentences below it."""
    counts = summary["counts"]
    flagged = counts["flagged"]
    if flagged:
        look = "looks" if flagged == 1 else "look"
        share = percent(flagged / max(counts["scored"], 1))
        return Finding(
            level="flagged",
            headline=f"{flagged:,} of {counts['scored']:,} rewards {look} wrong ({share}).",
            reason=f"{_what_flags_rest_on(summary)} {NO_PROOF}",
        )
    obstacle = _why_nothing_was_judged(summary)
    if obstacle:
        return Finding(level="unjudged", headline="No reward could be judged.", reason=obstacle)
    if not goes_by_verdicts(summary):
        return _finding_of_other_curators(summary)
    proved = summary["verifier"].get("errors_at_least")
    if proved:
        return Finding(
            level="none",
            headline="No single reward stands out as wrong.",
            reason=f"The verdicts prove at least {counted(proved, 'wrong reward')}, but not which ones these are.",
        )
    return Finding(
        level="none",
        headline="No reward looks wrong.",
        reason="Nothing stands out enough to be flagged. This is no proof that the rewards are right.",
    )


def unread_answers(summary: Summary) -> str:
    """That less than half of the responses have an answer that can be read, and what to do; empty otherwise.

    Where nothing could be judged, the finding says so itself.
    """
    verifier = summary["verifier"]
    if not goes_by_verdicts(summary) or "reason" in verifier or finding(summary).level == "unjudged":
        return ""
    answered = verifier["answered"]
    scored = verifier["scored"]
    if 2 * answered >= scored:
        return ""
    if not answered:
        return (
            f"No final answer could be read in any of {counted(scored, 'response')}. They were compared by identical "
            f"texts alone. {_where_answers_are_read(summary)}"
        )
    have = "has" if answered == 1 else "have"
    return (
        f"Only {answered:,} of {counted(scored, 'response')} {have} a final answer that can be read. The others were "
        f"compared by identical texts alone. {_where_answers_are_read(summary)}"
    )


def goes_by_verdicts(summary: Summary) -> bool:
    """Whether the curator is `denoise`, which goes by verdicts that contradict each other."""
    return bool(summary["curator"]["type"] == "denoise")


def _what_flags_rest_on(summary: Summary) -> str:
    """What the curator compared to flag rewards."""
    verifier = summary["verifier"]
    if not goes_by_verdicts(summary):
        return f"The curator `{summary['curator']['type']}` flags rewards that do not fit those of the other responses."
    by_states = bool(steps_by_states(summary))
    if "reason" in verifier or has_one_verdict(summary):
        evidence = [] if has_one_verdict(summary) else ["the other rewards"]
        if by_states:
            evidence.append("the hidden states of a model")
        if truths_were_told(summary):
            evidence.append("the true rewards that labels or a second verifier gave")
        return f"They do not fit {enumerated(evidence)}."
    if verifier["answered"] and verifier["errors_at_least"]:
        several = ", or several different answers to one prompt were rewarded"
        basis = (
            "Some rewards contradict each other: equal answers to a prompt were judged differently"
            f"{'' if verifier['answers'] == 'shared' else several}."
        )
    elif verifier["groups_with_responses_judged_both_ways"]:
        basis = "Some rewards contradict each other: identical responses to a prompt were judged differently."
    else:
        basis = "They do not fit the other rewards of their prompt."
    return f"{basis} Hidden states of a model were compared as well." if by_states else basis


def _why_nothing_was_judged(summary: Summary) -> str:
    """Why no reward could be compared with others, and what to do; empty where some could."""
    counts = summary["counts"]
    verifier = summary["verifier"]
    if not goes_by_verdicts(summary):
        if counts["scored"]:
            return ""
        return (
            f"The curator `{summary['curator']['type']}` gave no reward a score: it judges none, or it had too little "
            "to compare. If you name no curator, `denoise` judges the rewards."
        )
    lone = reason_of_lone_rollouts(summary)
    if lone:
        return lone
    are_verdicts = summary["checks"]["possible"]
    answers_would_help = are_verdicts and not counts["answered"]
    if counts["unscored"] == counts["rows"]:
        return str(verifier["reason"])
    if has_one_verdict(summary) or ("reason" in verifier and not counts["pairs"]):
        reason = verifier.get("reason", ONE_VERDICT)
        sentences = [str(reason), _NOTHING_TO_COMPARE]
        if not summary["checks"]["labelled"]:
            sentences.append(_CHECK_SOME)
        if answers_would_help:
            sentences.append(_where_answers_are_read(summary))
        return " ".join(sentences)
    if "reason" in verifier:
        if answers_would_help:
            return f"{verifier['reason']} {_where_answers_are_read(summary)}"
        if summary["hidden"]["from"] == "none":
            return f"{verifier['reason']} To judge them, hidden states of a model are needed: --model or --hidden."
        return str(verifier["reason"])
    if not counts["answered"] and not verifier["groups_with_responses_judged_both_ways"]:
        return (
            "No response has a final answer that can be read, and identical responses were judged alike. "
            f"{_where_answers_are_read(summary)}"
        )
    return ""


def _where_answers_are_read(summary: Summary) -> str:
    """Where final answers are read from, and how to name a field that holds them."""
    fields = [entry["fields"] for entry in summary["inputs"]]
    final_fields = [names["final_answer"] for names in fields if "final_answer" in names]
    if final_fields:
        return (
            f"Final answers are read from the field `{min(final_fields)}`, and from \\boxed{{...}} in a response where "
            "it is empty."
        )
    own = own_answer_field(summary)
    where = (
        "Final answers are read from \\boxed{...} in a response, or from a field: "
        f"--field final_answer={own or 'NAME'}."
    )
    gold_fields = [names["answer"] for names in fields if "answer" in names]
    if own or not gold_fields:
        return where
    return f"{where} `{min(gold_fields)}` is read as the gold answer, not as the response's."


def _finding_of_other_curators(summary: Summary) -> Finding:
    """What is said of a curator that flagged nothing, as one does that changes rewards without judging any."""
    reason = "This is no proof that the rewards are right. Some curators change rewards and flag none."
    changed = summary["counts"]["changed"]
    if changed:
        reason += f" In a training this one would change {counted(changed, 'reward')}."
    headline = f"The curator `{summary['curator']['type']}` flags no rewards."
    return Finding(level="none", headline=headline, reason=reason)
