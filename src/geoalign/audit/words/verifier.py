"""What an audit tells of the verifier that gave the rewards, in words: its error rates, and how each is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from geoalign.answers.equivalence import FAILED, NOT_INSTALLED, OUT_OF_TIME, TIMED_OUT, TOO_LONG
from geoalign.audit.words.checks import checked_lines, model_line, next_checks
from geoalign.audit.words.evidence import has_one_verdict
from geoalign.audit.words.finding import finding
from geoalign.console.numbers import counted, percent
from geoalign.noise.doubts import BY_CHANCE

Summary = Mapping[str, Any]

# What the two rates are called, and what each is of.
_RATES = {
    "false_positive_rate": "Wrong answers that were rewarded",
    "false_negative_rate": "Correct answers that were refused",
}
_KNOWN_BY = {"bounds": "proved", "checks": "checked", "model": "estimated"}
NOT_KNOWN = "not known"
# A range from 0 to above it tells a reader nothing. `summary.json` has it all the same.
_TELLS_LITTLE = 0.75
_HARDLY_JUDGES = f"The verifier may not judge the answers at all: {BY_CHANCE}."

INVISIBLE = (
    "Consistent mistakes are invisible here: an error that the verifier repeats with an answer cannot be seen in its "
    "verdicts."
)
_PROVED = (
    "Proved: it follows from the verdicts{and_truths}, if {truths_are_right}equal answers to a prompt are equally "
    "right and at most one answer to a prompt is right."
)
_ONE_SPELLING = "Give the answers in one spelling, in a field of their own: --field final_answer=NAME."
# By why pairs of answers stayed undecided: the reason in words, and what to do.
_WHY_UNDECIDED = {
    NOT_INSTALLED: ("Math-Verify is not installed", "Install it: pip install 'geoalign[trl]'."),
    OUT_OF_TIME: (
        "Math-Verify had no time left for this file",
        f"Audit the file in parts, each of which has its own time. {_ONE_SPELLING.replace('Give', 'Or give')}",
    ),
    TIMED_OUT: ("Math-Verify took too long over them", _ONE_SPELLING),
    FAILED: ("Math-Verify failed on them", _ONE_SPELLING),
    TOO_LONG: ("they are too long or too deeply nested to be compared", _ONE_SPELLING),
}
PROVED_IF_SHARED = "Proved: equal answers or responses to a prompt were both rewarded and refused."
ESTIMATED = (
    "Estimated: by a statistical model whose errors strike verdicts one by one, with 95% intervals that leave room for "
    "errors that repeat."
)


@dataclass(frozen=True)
class Rate:
    """One error rate in words: of what, how much, and how that is known (empty where it is not)."""

    name: str
    value: str
    by: str


@dataclass(frozen=True)
class Verifier:
    """What is known of the verifier.

    Attributes:
        rates: both error rates; empty where nothing can be said of either.
        notes: what else is certain, and what the words of the table mean; else why nothing is known.
        details: how it is known, for those who want to check it.
        next_when: when checks of rows would tell more; empty where they would not.
        next_command: the command for them.
    """

    rates: tuple[Rate, ...] = ()
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    next_when: str = ""
    next_command: str = ""


def verifier(summary: Summary) -> Verifier:
    """What is known of the verifier, in the order of trust: what is certain, what checks say, what a model guesses."""
    known = _by_checks(summary) if summary["verifier"].get("checks") else _by_verdicts(summary)
    if known.notes:
        known = replace(known, notes=(*known.notes, *_where_nothing_excludes(summary)))
    following = next_checks(summary)
    if following is None:
        return known
    when, command = following
    return replace(known, next_when=when, next_command=command)


def _by_checks(summary: Summary) -> Verifier:
    """What the verdicts prove, what the checks say, and what a model would guess beside them."""
    found = summary["verifier"]
    rates = []
    for name in _RATES:
        claim = found["rates"][name]
        if claim["by"] == "checks" and found["bounds"] is not None:
            proved = _rate(name, {**found["bounds"][name], "estimate": None, "by": "bounds"})
            if proved.by:
                rates.append(proved)
        rate = _rate(name, claim)
        checked = found["checks"][name]
        if rate.by == "checked" and (claim["low"], claim["high"]) != (checked["low"], checked["high"]):
            # One end is that of the bounds.
            rate = replace(rate, by="checked and proved")
        rates.append(rate)
    errors = found["errors_at_least"]
    notes = []
    if errors:
        notes.append(_proved_errors(found))
    if errors or any(rate.by == "proved" for rate in rates):
        notes.append(PROVED_IF_SHARED if found["answers"] == "shared" else _what_proved_rests_on(found))
    notes += checked_lines(summary)
    guess = model_line(summary)
    if guess:
        notes.append(guess)
    return Verifier(rates=tuple(rates), notes=tuple(notes), details=_contradictions(found))


def _what_proved_rests_on(found: Mapping[str, Any]) -> str:
    """What "proved" means: it rests on the verdicts, and on the truth of rows where labels or a check told it."""
    if not found["known_truths"]:
        return _PROVED.format(and_truths="", truths_are_right="")
    told = counted(found["known_truths"], "reward")
    return _PROVED.format(
        and_truths=f" and from {told} that labels or a second verifier gave",
        truths_are_right="these are right, ",
    )


def _by_verdicts(summary: Summary) -> Verifier:
    """What the verdicts tell of the verifier; nothing where the finding says already why nothing is known."""
    found = summary["verifier"]
    if "reason" in found or (finding(summary).level == "unjudged" and not has_one_verdict(summary)):
        return Verifier()
    contradictions = _contradictions(found)
    if found["answers"] == "shared":
        return Verifier(notes=(_what_contradictions_prove(found), INVISIBLE), details=contradictions)
    rates = tuple(_rate(name, found["rates"][name]) for name in _RATES)
    errors = found["errors_at_least"]
    proved_errors = [_proved_errors(found)] if errors else []
    if all(rate.value == NOT_KNOWN for rate in rates):
        meaning = (_what_proved_rests_on(found),) if errors else ()
        return Verifier(notes=(*proved_errors, *meaning, _why_not_known(found)), details=contradictions)
    known_by = {rate.by for rate in rates}
    meanings = []
    if errors or "proved" in known_by:
        meanings.append(_what_proved_rests_on(found))
    if "estimated" in known_by:
        meanings.append(ESTIMATED)
    exactly = all(found["rates"][name]["low"] == found["rates"][name]["high"] for name in _RATES)
    invisible = () if exactly else (_HARDLY_JUDGES if found["doubt"] == BY_CHANCE else INVISIBLE,)
    return Verifier(
        rates=rates,
        notes=(*proved_errors, *meanings, *invisible),
        details=(*_what_the_model_says(found), *contradictions),
    )


def _where_nothing_excludes(summary: Summary) -> tuple[str, ...]:
    """On how many prompts different answers prove nothing, why, and what to do."""
    said = []
    several = summary.get("gold_answers", {}).get("several")
    if several:
        said.append(
            f"To {counted(several, 'prompt')} the file has several gold answers, so several answers may be right "
            "there, and two that were rewarded prove nothing."
        )
    compared = summary.get("equal_answers") or {}
    if compared.get("undecided_prompts"):
        because = compared["undecided_because"]
        why, remedy = _WHY_UNDECIDED[max(because, key=because.get)]
        said.append(
            f"On {counted(compared['undecided_prompts'], 'prompt')} it is not known whether two answers are one and "
            f"the same, because {why}, so two that were rewarded prove nothing there. {remedy}"
        )
    return tuple(said)


def _proved_errors(found: Mapping[str, Any]) -> str:
    """How many rewards must be wrong."""
    errors = found["errors_at_least"]
    are = "is" if errors == 1 else "are"
    return f"At least {errors:,} of the {found['scored']:,} rewards {are} wrong (proved)."


def _rate(name: str, rate: Mapping[str, Any]) -> Rate:
    """One rate in words, and how it is known."""
    value = rate_in_words(rate)
    return Rate(name=_RATES[name], value=value, by="" if value == NOT_KNOWN else _KNOWN_BY[rate["by"]])


def rate_in_words(rate: Mapping[str, Any]) -> str:
    """A claim on a rate: a number, an estimate with its range, one end of the range, the range, or "not known"."""
    low = rate["low"]
    high = rate["high"]
    value = range_in_words(low, high)
    if value == NOT_KNOWN or rate["by"] == "bounds":
        return value
    ends = [percent(low), percent(high)]
    # An estimate beyond what is proved was moved to the end of the range, where it says nothing of its own.
    if ends[0] != ends[1] and percent(rate["estimate"]) not in ends:
        return f"{percent(rate['estimate'])} ({ends[0]} to {ends[1]})"
    return value


def says_nothing(low: float, high: float) -> bool:
    """Whether the range of a rate leaves nearly every rate possible, so that the rate counts as not known."""
    return low <= 0 and high > _TELLS_LITTLE


def range_in_words(low: float | None, high: float | None) -> str:
    """A range of a rate: one number, the end that says something, both ends, or "not known"."""
    if low is None or high is None or says_nothing(low, high):
        return NOT_KNOWN
    if percent(low) == percent(high):
        return percent(low)
    if high >= 1:
        return f"at least {percent(low)}"
    if low <= 0:
        return f"at most {percent(high)}"
    return f"{percent(low)} to {percent(high)}"


def _why_not_known(found: Mapping[str, Any]) -> str:
    """Why nothing can be said of either rate: the model is in doubt, or its range is too wide to say anything."""
    doubt = found["doubt"] or "what the verdicts tell leaves nearly every rate possible"
    return f"Its error rates are not known. {doubt[0].upper()}{doubt[1:]}. {INVISIBLE}"


def _what_the_model_says(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Why the model is not believed, and what it would guess all the same; nothing where it is believed."""
    if not found["doubt"]:
        return ()
    doubt = f"A statistical model cannot be trusted here: {found['doubt']}."
    positive = found["model"]["false_positive_rate"]["estimate"]
    negative = found["model"]["false_negative_rate"]["estimate"]
    if not (positive or negative):
        return (doubt,)
    guess = f"{percent(positive)} of the wrong answers were rewarded and {percent(negative)} of the correct refused"
    return (f"{doubt} It would guess that {guess}.",)


def _contradictions(found: Mapping[str, Any]) -> tuple[str, ...]:
    """On how many prompts an answer or response that came twice was both rewarded and refused."""
    lines = []
    for one, several in (("answer", "answers"), ("response", "responses")):
        both = found[f"groups_with_{several}_judged_both_ways"]
        if both:
            prompts = counted(found[f"groups_with_repeated_{several}"], "prompt")
            lines.append(f"Of {prompts} with the same {one} twice, {both:,} had it both rewarded and refused.")
    return tuple(lines)


def _what_contradictions_prove(found: Mapping[str, Any]) -> str:
    """What is certain where several answers to a prompt may be right."""
    why = "As several answers to a prompt may be right, nothing tells how often the verifier errs."
    errors = found["errors_at_least"]
    if not errors:
        return f"Its error rates are not known. {why}"
    are = "is" if errors == 1 else "are"
    return (
        f"At least {errors:,} of the {found['scored']:,} rewards {are} wrong: equal answers or responses to a prompt "
        f"were both rewarded and refused. {why}"
    )
