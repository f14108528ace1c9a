"""What an audit's summary says, in words: the one place for what the terminal and the page tell a reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.audit.grouping import groups_of_one, own_answer_field
from geoalign.console.numbers import counted, ends, percent
from geoalign.pages.headlines import CHANCE, Verdict, level_of
from geoalign.statistics import Interval
from geoalign.text import visible

Summary = Mapping[str, Any]

INVISIBLE = (
    "Consistent mistakes are invisible here: an error that the verifier repeats with an answer cannot be seen in its "
    "verdicts."
)
NO_PROOF = "A flag is a reason to look at a reward, not a proof that it is wrong."
EARLIER = "This folder is of an earlier version, whose error rates did not hold: run the audit again."


# --- the finding ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """How many rewards look wrong, and what that rests on.

    `level` is "flagged", "none" (judged, and nothing stands out) or "unjudged".
    """

    level: str
    headline: str
    reason: str


def finding(summary: Summary) -> Finding:
    """The first thing that a reader is told."""
    counts = summary["counts"]
    flagged, judged = counts["flagged"], counts["scored"]
    if flagged:
        look = "looks" if flagged == 1 else "look"
        headline = f"{flagged:,} of {judged:,} rewards {look} wrong ({percent(flagged / max(judged, 1))})."
        return Finding("flagged", headline, f"{_what_flags_rest_on(summary)} {NO_PROOF}")
    if why := why_unjudged(summary):
        return Finding("unjudged", "No reward could be judged.", why)
    if not _compares_verdicts(summary):
        return _without_flags(summary)
    errors = (summary.get("verifier") or {}).get("errors_at_least")
    if errors:
        reason = f"The verdicts prove at least {counted(errors, 'wrong reward')}, but not which ones these are."
        return Finding("none", "No single reward stands out as wrong.", reason)
    reason = "Nothing stands out enough to be flagged. This is no proof that the rewards are right."
    return Finding("none", "No reward looks wrong.", reason)


def _without_flags(summary: Summary) -> Finding:
    """What is said of a curator that flagged nothing, as one does that changes rewards without judging any."""
    name = visible(str(summary["curator"].get("type", "")), 80)
    reason = "This is no proof that the rewards are right. Some curators change rewards and flag none."
    return Finding("none", f"The curator `{name}` flags no rewards.", f"{reason} {_in_a_training(summary)}".strip())


def _in_a_training(summary: Summary) -> str:
    """How many rewards a training with the curator would change; empty where none."""
    changed = summary["counts"].get("changed")
    return f"In a training this one would change {counted(changed, 'reward')}." if changed else ""


_CHANGES = {
    "changed": "{} with another reward than in the input",
    "replaced": "{} replaced by another response to the prompt",
    "zero_weighted": "{} without weight",
}


def filtered(summary: Summary) -> str:
    """What stands in `filtered.jsonl`, and where it is what was read, why; empty where it was not asked for."""
    if not summary.get("filtered"):
        return ""
    counts = summary["counts"]
    stay, left_out = counts["rows"] - counts["left_out"], counts["left_out"]
    changes = [words.format(f"{counts[name]:,}") for name, words in _CHANGES.items() if counts[name]]
    holds = f"filtered.jsonl holds {counted(stay, 'rollout')}"
    if changes or left_out:
        told = f"{holds}: {', '.join(changes)}." if changes else f"{holds}."
        return f"{told} {counted(left_out, 'rollout was', 'rollouts were')} left out." if left_out else told
    return f"{holds}, and no reward was changed. {_why_unchanged(summary)}".strip()


def _why_unchanged(summary: Summary) -> str:
    """Why `denoise` changes no reward although some are flagged, and what would make it; empty elsewhere."""
    if not _compares_verdicts(summary) or not summary["counts"]["flagged"]:
        return ""
    why = "Flags change nothing where the verdicts do not tell how often the verifier errs."
    if summary["labels"]["files"] or summary["appeals"]:
        return f"{why} More labels may."
    return f"{why} With labels (--labels) or a second verifier (--second-verifier) they can."


def _compares_verdicts(summary: Summary) -> bool:
    """Whether the curator is `denoise`, which goes by verdicts that contradict each other."""
    return summary["curator"].get("type") == "denoise"


def _what_flags_rest_on(summary: Summary) -> str:
    name = visible(str(summary["curator"].get("type", "")), 80)
    verifier = summary.get("verifier") or {}
    if not _compares_verdicts(summary):
        return f"The curator `{name}` flags rewards that do not fit those of the other responses."
    if verifier.get("reason"):
        return "They do not fit what the hidden states of a model and the other rewards suggest."
    if not verifier.get("answered", 1):
        if verifier.get("groups_with_responses_judged_both_ways"):
            found = "Some rewards contradict each other: identical responses to a prompt were judged differently."
        else:
            found = "They do not fit the other rewards of their prompt."
    elif verifier.get("answers") == "shared":
        found = "Some rewards contradict each other: equal answers to a prompt were judged differently."
    else:
        found = (
            "Some rewards contradict each other: equal answers to a prompt were judged differently, or several "
            "different answers to one prompt were rewarded."
        )
    if summary["hidden"].get("from") in (None, "none"):
        return found
    return f"{found} Hidden states of a model were compared as well."


def why_unjudged(summary: Summary) -> str:
    """Why `denoise` could compare nothing, and what to do; empty where it could, and for other curators."""
    verifier = summary.get("verifier") or {}
    if not _compares_verdicts(summary):
        return "No reward could be compared with another." if not summary["counts"]["scored"] else ""
    alone = groups_of_one(summary)
    if alone:
        return alone
    reason = verifier.get("reason")
    if reason:
        return f"{reason} {_remedy(summary)}".strip()
    if not summary["counts"].get("answered", 1) and not verifier.get("groups_with_responses_judged_both_ways"):
        return (
            "No response has a final answer that can be read, and identical responses were judged alike. "
            f"{_where_answers_are(summary)}"
        )
    return ""


def _remedy(summary: Summary) -> str:
    if summary["hidden"].get("from") in (None, "none") and summary["counts"].get("answered", 1):
        return "To judge them, hidden states of a model are needed: --model or --hidden."
    return _where_answers_are(summary)


def unread_answers(summary: Summary) -> str:
    """That most responses have no answer that can be read, and what to do; empty elsewhere.

    Where nothing could be judged, the finding says so itself.
    """
    found = summary.get("verifier") or {}
    if not _compares_verdicts(summary) or "answered" not in found or finding(summary).level == "unjudged":
        return ""
    answered, scored = found["answered"], found["scored"]
    if 2 * answered >= scored:
        return ""
    if answered:
        have = "has" if answered == 1 else "have"
        said = f"Only {answered:,} of {counted(scored, 'response')} {have} a final answer that can be read."
        compared = "The others were compared by identical texts alone."
    else:
        said = f"No final answer could be read in any of {counted(scored, 'response')}."
        compared = "They were compared by identical texts alone."
    return f"{said} {compared} {_where_to_read(summary)}"


def _where_answers_are(summary: Summary) -> str:
    """Where final answers are read from, where no response has one; empty elsewhere."""
    return "" if summary["counts"].get("answered", 1) else _where_to_read(summary)


def _where_to_read(summary: Summary) -> str:
    """Where final answers are read from, and how to name a field that holds them."""
    fields = [entry.get("fields") or {} for entry in summary["inputs"]]
    named = {names["final_answer"] for names in fields if "final_answer" in names}
    if named:
        return (
            f"Final answers are read from the field `{visible(min(named), 80)}`, and from \\boxed{{...}} in a response "
            "where it is empty."
        )
    known = own_answer_field(summary) or "NAME"
    where = f"Final answers are read from \\boxed{{...}} in a response, or from a field: --field final_answer={known}."
    gold = {names["answer"] for names in fields if "answer" in names}
    if not gold or own_answer_field(summary):
        return where
    return f"{where} `{visible(min(gold), 80)}` is read as the gold answer, not as the response's."


# --- the verifier's error rates ---------------------------------------------------------------------------------------

# What the two rates are called, and what each is of.
_RATES = {
    "false_positive_rate": "Wrong answers that were rewarded",
    "false_negative_rate": "Correct answers that were refused",
}
_KNOWN_BY = {"bounds": "proved", "model": "estimated"}
NOT_KNOWN = "not known"
# A range from 0 to above it tells a reader nothing; `summary.json` has it all the same.
_SAYS_NOTHING = 0.75
PROVED = (
    "Proved: it follows from the verdicts, if equal answers to a prompt are equally right and at most one answer to a "
    "prompt is right."
)
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
    """

    rates: list[Rate]
    notes: list[str]
    details: list[str]


def verifier(summary: Summary) -> Verifier:
    """What the verdicts tell of the verifier that gave them."""
    found = summary.get("verifier") or {}
    if found.get("reason") or finding(summary).level == "unjudged":
        # There is no verifier to speak of, or the finding says already why nothing is known.
        return Verifier([], [], [])
    if found.get("rates") and "bounds" not in found:
        return Verifier([], [EARLIER], [])
    if found.get("answers") == "shared":
        return Verifier([], [_contradicted(found), INVISIBLE], _contradictions(found))
    rates = [_rate(name, found["rates"][name]) for name in _RATES] if found.get("rates") else []
    notes = []
    known_by = {rate.by for rate in rates}
    errors = found.get("errors_at_least")
    if errors:
        are = "is" if errors == 1 else "are"
        notes.append(f"At least {errors:,} of the {found['scored']:,} rewards {are} wrong (proved).")
        known_by.add("proved")
    if all(rate.value == NOT_KNOWN for rate in rates):
        if errors:
            notes.append(PROVED)
        why = _why_not_known(found)
        return Verifier([], [*notes, why] if why else notes, _contradictions(found))
    notes += [words for by, words in (("proved", PROVED), ("estimated", ESTIMATED)) if by in known_by]
    notes.append(INVISIBLE)
    return Verifier(rates, notes, [*_model_says(found), *_contradictions(found)])


def _rate(name: str, rate: Mapping[str, Any]) -> Rate:
    low, high = rate["low"], rate["high"]
    if low is None or high is None or (low <= 0 and high > _SAYS_NOTHING):
        return Rate(_RATES[name], NOT_KNOWN, "")
    by = _KNOWN_BY[rate["by"]]
    if percent(low) == percent(high):
        return Rate(_RATES[name], percent(low), by)
    # An estimate beyond what is proved was moved to the end of the range, where it says nothing of its own.
    if by == "estimated" and percent(rate["estimate"]) not in (percent(low), percent(high)):
        return Rate(_RATES[name], f"{percent(rate['estimate'])} ({percent(low)} to {percent(high)})", by)
    if high >= 1:
        return Rate(_RATES[name], f"at least {percent(low)}", by)
    if low <= 0:
        return Rate(_RATES[name], f"at most {percent(high)}", by)
    return Rate(_RATES[name], f"{percent(low)} to {percent(high)}", by)


def _why_not_known(found: Mapping[str, Any]) -> str:
    """Why nothing can be said of either rate; empty where there is no verifier to speak of."""
    if not found:
        return ""
    # Where the model is believed its range is too wide to say anything.
    doubt = found.get("doubt") or "what the verdicts tell leaves nearly every rate possible"
    return " ".join(["Its error rates are not known.", _sentence(doubt), INVISIBLE])


def _model_says(found: Mapping[str, Any]) -> list[str]:
    """What the model adds to what is proved: why it is not believed, and what it would guess all the same."""
    if not found["doubt"]:
        return []
    doubt = f"A statistical model cannot be trusted here: {found['doubt']}."
    guesses = [found["model"][name]["estimate"] for name in _RATES]
    if not any(guesses):
        return [doubt]
    positive, negative = map(percent, guesses)
    guess = f"It would guess that {positive} of the wrong answers were rewarded and {negative} of the correct refused."
    return [f"{doubt} {guess}"]


def _contradictions(found: Mapping[str, Any]) -> list[str]:
    """On how many prompts an answer or response that came twice was both rewarded and refused."""
    lines = []
    for one, several in (("answer", "answers"), ("response", "responses")):
        both = found.get(f"groups_with_{several}_judged_both_ways")
        if both:
            repeated = found[f"groups_with_repeated_{several}"]
            prompts = counted(repeated, "prompt")
            lines.append(f"Of {prompts} with the same {one} twice, {both:,} had it both rewarded and refused.")
    return lines


def _contradicted(found: Mapping[str, Any]) -> str:
    """What contradictions alone prove where several answers to a prompt may be right."""
    errors = found["errors_at_least"]
    why = "As several answers to a prompt may be right, nothing tells how often the verifier errs."
    if not errors:
        return f"Its error rates are not known. {why}"
    return (
        f"At least {errors:,} of the {found['scored']:,} rewards {'is' if errors == 1 else 'are'} wrong: equal answers "
        f"or responses to a prompt were both rewarded and refused. {why}"
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


# --- what else was found ----------------------------------------------------------------------------------------------


# Prompts that are named, and spellings of an answer.
_NAMED, _SPELLINGS = 3, 3


def judged_by_spelling(summary: Summary) -> str:
    """On which prompts the verdict on an answer goes with its spelling; empty where on none, or nobody looked."""
    found = summary.get("spellings") or {}
    if not found.get("answers"):
        return ""
    gold = found["gold"]
    told = (
        f"On {counted(found['prompts'], 'prompt')} the verdict on an answer goes with its spelling: every spelling was "
        "judged alike, but one was rewarded and another refused."
    )
    if gold == found["answers"]:
        told += " The answer is the gold answer, so the refusals look wrong."
    elif gold:
        told += (
            f" Where it is the gold answer, which is so on {counted(gold, 'prompt')}, the refusals look wrong. "
            "Elsewhere either these or the rewards are wrong."
        )
    else:
        told += " Either the refusals or the rewards are wrong."
    named = [_spelled_prompt(item) for item in found["listed"][:_NAMED]]
    more = found["answers"] - len(named)
    rest = f", and {more:,} more, which summary.json lists" if more > 0 else ""
    return f"{told} Look at {'; '.join(named)}{rest}."


def _spelled_prompt(item: Mapping[str, Any]) -> str:
    """A group with the verdicts on the spellings of its answer; without spellings where texts were left out."""
    told = [
        f"{_in_line(one['spelling'])} rewarded {one['rewarded']:,} of {one['rewarded'] + one['refused']:,}"
        for one in item["spellings"]
        if one["spelling"] is not None
    ]
    if not told:
        return f"group {item['group']}"
    rest = [f"{len(told) - _SPELLINGS:,} more"] if len(told) > _SPELLINGS else []
    return f"group {item['group']} ({', '.join([*told[:_SPELLINGS], *rest])})"


def _in_line(answer: str, most: int = 40) -> str:
    line = " ".join(visible(answer, 4 * most).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def second_verifier(summary: Summary) -> str:
    """What a second verifier said; empty where none was asked."""
    asked = summary.get("appeals")
    if not asked:
        return ""
    name = visible(str(asked.get("verifier") or "The second verifier"), 80)
    said = (
        f"{name} checked {counted(asked['rows'], 'reward')}: "
        f"{_overturned(asked['rows'], asked['overturned'], asked['lowered'])}."
    )
    if asked["unanswered"]:
        said += f" It had no verdict on {asked['unanswered']:,}."
    counts = summary["counts"]
    if asked["rows"] >= counts["rows"] - counts["unscored"]:
        return f"{said} These are all rewards of the input."
    return f"{said} It was asked about the rewards that would tell most, so this share is no error rate."


def _overturned(checked: int, wrong: int, too_high: int) -> str:
    """How many of the rewards that were checked were wrong, and in which way."""
    if not wrong:
        return "it is right" if checked == 1 else "all of them are right"
    if too_high in (0, wrong):
        return f"{wrong:,} {'is' if wrong == 1 else 'are'} {'too high' if too_high else 'too low'}"
    return f"{too_high:,} {'is' if too_high == 1 else 'are'} too high and {wrong - too_high:,} too low"


def trained_on(summary: Summary) -> str:
    """How flags are spread over rollouts that were trained on and others; empty where that is not known."""
    counts = summary["counts"]
    if not (counts.get("trained_on") or counts.get("not_trained_on")):
        return ""
    generated = counts["trained_on"] + counts["not_trained_on"]
    flagged, others = (
        percent(counts[f"{name}_flagged"] / max(counts[f"{name}_scored"], 1))
        for name in ("trained_on", "not_trained_on")
    )
    were = "was" if counts["trained_on"] == 1 else "were"
    return (
        f"{counts['trained_on']:,} of {generated:,} generated rollouts {were} trained on. Of their rewards {flagged} "
        f"look wrong, of the others' {others}."
    )


def refused(summary: Summary) -> str:
    """One sentence on prompts whose agreed answer is always refused; empty where there are none."""
    prompts = summary.get("prompts") or {}
    count = prompts.get("refused")
    if not count:
        return ""
    return (
        f"On {counted(count, 'prompt')} at least {prompts['least_share']:.0%} of the responses agree on an answer that "
        "was refused every time. Either the gold answer is wrong or the model makes a common mistake."
    )


def refused_prompts(summary: Summary) -> list[dict[str, Any]]:
    """The prompts that `refused` speaks of, the strongest agreement first; texts are None where they were left out."""
    listed = (summary.get("prompts") or {}).get("listed", ())
    return [{"answer": None, "gold": None, **item} for item in listed]


_HEADLINES = {
    "yes": "The pattern behind the flags also holds on new prompts.",
    "no": "The pattern behind the flags is no better than chance on new prompts.",
    "against": "The pattern behind the flags is worse than chance on new prompts.",
    "unknown": "Whether the pattern behind the flags holds on new prompts cannot be told from one measurement.",
}
_ADVICE = {
    "yes": "A flag says that a reward disagrees with the other responses, not that it is wrong.",
    "no": "Read these flags as a random sample.",
    "against": "Do not use these flags.",
}


def new_prompts(summary: Summary) -> Verdict:
    """Whether what a GeoAlign curator learnt orders two responses to a prompt rightly that it was not trained on."""
    measured = summary.get("consensus") or {}
    accuracy, low, high = (measured.get(f"new_group_accuracy{end}") for end in ("", "_low", "_high"))
    if accuracy is None:
        return Verdict("unmeasured", "", visible(measured.get("reason") or ""), 0)
    interval = Interval(accuracy, *(math.nan if end is None else end for end in (low, high)))
    level = level_of(interval, CHANCE)
    over = "" if math.isnan(interval.low) else f"; 95% interval {ends(interval, percent)}"
    text = (
        f"On {measured['groups']:,} groups that it had not been learnt from, it put the better rewarded of two "
        f"responses first in {percent(accuracy)} of pairs (chance {CHANCE:.0%}{over}). {_ADVICE.get(level, '')}"
    )
    return Verdict(level, _HEADLINES[level], text.strip(), 0)
