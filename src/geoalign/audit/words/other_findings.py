"""What else an audit found, in words: spellings, a second verifier, what was trained on, new prompts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from geoalign.audit.words.evidence import steps_by_states
from geoalign.audit.words.finding import finding, goes_by_verdicts
from geoalign.console.numbers import counted, ends, percent
from geoalign.pages.headlines import CHANCE, Verdict, level_of
from geoalign.statistics import Interval
from geoalign.text import shortened

Summary = Mapping[str, Any]

# Prompts that are named, and spellings of an answer.
_NAMED = 3
_SPELLINGS = 3

_HEADLINES = {
    "yes": "The pattern behind the flags also holds on new prompts.",
    "no": "The pattern behind the flags is no better than chance on new prompts.",
    "against": "The pattern behind the flags is worse than chance on new prompts.",
    "unknown": "Whether the pattern behind the flags holds on new prompts cannot be told from one measurement.",
}
_ADVICE = {
    "yes": " A flag says that a reward disagrees with the other responses, not that it is wrong.",
    "no": " Read these flags as a random sample.",
    "against": " Do not use these flags.",
    "unknown": "",
}


def other_findings(summary: Summary) -> Iterator[str]:
    """Everything of this module but the second verifier, as paragraphs; only what there is to say."""
    yield from filter(None, [trained_on(summary), judged_by_spelling(summary)])
    learnt = new_prompts(summary)
    if learnt.level != "unmeasured":
        yield f"{learnt.headline} {learnt.text}"


def what_was_compared(summary: Summary) -> Iterator[str]:
    """That rewards were judged without hidden states, unless none could be judged; and that no texts were kept."""
    if finding(summary).level != "unjudged":
        hidden = summary["hidden"]
        if "note" in hidden:
            yield hidden["note"]
        elif goes_by_verdicts(summary) and hidden["from"] != "none" and not steps_by_states(summary):
            yield "The hidden states did not predict the rewards of other prompts, so they were not used."
    if summary["redacted"]:
        yield "No prompt, response or answer was written (--redact)."


def judged_by_spelling(summary: Summary) -> str:
    """On which prompts the verdict on an answer goes with its spelling; empty where on none."""
    found = summary["spellings"]
    if not found["answers"]:
        return ""
    what = (
        f"On {counted(found['prompts'], 'prompt')} the verdict on an answer goes with its spelling: every spelling was "
        "judged alike, but one was rewarded and another refused."
    )
    if found["gold"] == found["answers"]:
        meaning = "The answer is the gold answer, so the refusals look wrong."
    elif found["gold"]:
        meaning = (
            f"Where it is the gold answer, which is so on {counted(found['gold'], 'prompt')}, the refusals look wrong. "
            "Elsewhere either these or the rewards are wrong."
        )
    else:
        meaning = "Either the refusals or the rewards are wrong."
    named = [_spelled_group(item) for item in found["listed"][:_NAMED]]
    more = found["answers"] - len(named)
    rest = f", and {more:,} more, which summary.json lists" if more > 0 else ""
    return f"{what} {meaning} Look at {'; '.join(named)}{rest}."


def _spelled_group(item: Mapping[str, Any]) -> str:
    """A group with the verdicts on the spellings of its answer; without spellings where texts were left out."""
    verdicts = []
    for one in item["spellings"]:
        if one["spelling"] is not None:
            times = one["rewarded"] + one["refused"]
            verdicts.append(f"{shortened(one['spelling'], 40)} rewarded {one['rewarded']:,} of {times:,}")
    if not verdicts:
        return f"group {item['group']}"
    more = len(verdicts) - _SPELLINGS
    shown = verdicts[:_SPELLINGS] + ([f"{more:,} more"] if more > 0 else [])
    return f"group {item['group']} ({', '.join(shown)})"


def second_verifier(summary: Summary) -> str:
    """What a second verifier said; empty where none was asked."""
    asked = summary["appeals"]
    if asked is None:
        return ""
    if not asked["rows"]:
        return (
            f"{asked['verifier']} gave no verdict on the {counted(asked['unanswered'], 'response')} it was asked about."
        )
    said = f"{asked['verifier']} checked {counted(asked['rows'], 'reward')}: {_overturned(asked)}."
    if asked["unanswered"]:
        said += f" It had no verdict on {asked['unanswered']:,}."
    counts = summary["counts"]
    if asked["rows"] >= counts["rows"] - counts["unscored"]:
        return f"{said} These are all rewards of the input."
    return f"{said} It was asked about the rewards that would tell most, so this share is no error rate."


def _overturned(asked: Mapping[str, Any]) -> str:
    """How many of the rewards that were checked were wrong, and in which way."""
    wrong = asked["overturned"]
    too_high = asked["lowered"]
    too_low = wrong - too_high
    if not wrong:
        return "it is right" if asked["rows"] == 1 else "all of them are right"
    if not too_low:
        return counted(too_high, "is too high", "are too high")
    if not too_high:
        return counted(too_low, "is too low", "are too low")
    return f"{counted(too_high, 'is too high', 'are too high')} and {too_low:,} too low"


def trained_on(summary: Summary) -> str:
    """How flags are spread over rollouts that were trained on and others; empty where that is not known."""
    counts = summary["counts"]
    generated = counts["trained_on"] + counts["not_trained_on"]
    if not generated:
        return ""
    flagged = percent(counts["trained_on_flagged"] / max(counts["trained_on_scored"], 1))
    others = percent(counts["not_trained_on_flagged"] / max(counts["not_trained_on_scored"], 1))
    were = "was" if counts["trained_on"] == 1 else "were"
    return (
        f"{counts['trained_on']:,} of {generated:,} generated rollouts {were} trained on. Of their rewards {flagged} "
        f"look wrong, of the others' {others}."
    )


def new_prompts(summary: Summary) -> Verdict:
    """Whether what a GeoAlign curator learnt orders two responses to a prompt rightly that it was not trained on.

    The level is "unmeasured" for curators that learn nothing of the kind.
    """
    measured = summary["consensus"]
    accuracy = measured["new_group_accuracy"]
    if accuracy is None:
        return Verdict(level="unmeasured", headline="", text=measured["reason"], steps=0)
    low = measured["new_group_accuracy_low"]
    high = measured["new_group_accuracy_high"]
    interval = Interval(accuracy, math.nan if low is None else low, math.nan if high is None else high)
    level = level_of(interval, CHANCE)
    over = "" if math.isnan(interval.low) else f"; 95% interval {ends(interval, percent)}"
    text = (
        f"On {measured['groups']:,} groups that it had not been learnt from, it put the better rewarded of two "
        f"responses first in {percent(accuracy)} of pairs (chance {CHANCE:.0%}{over}).{_ADVICE[level]}"
    )
    return Verdict(level=level, headline=_HEADLINES[level], text=text, steps=0)


# --- the file of rollouts that remain ---------------------------------------------------------------------------------

_CHANGES = {
    "changed": "with another reward than in the input",
    "replaced": "replaced by another response to the prompt",
    "zero_weighted": "without weight",
}


def filtered(summary: Summary) -> str:
    """What stands in `filtered.jsonl`, and if that is just what was read, why; empty where it was not asked for."""
    if not summary["filtered"]:
        return ""
    counts = summary["counts"]
    left_out = counts["left_out"]
    holds = f"filtered.jsonl holds {counted(counts['rows'] - left_out, 'rollout')}"
    happened = {name: change for name, change in _CHANGES.items() if counts[name]}
    changes = ", ".join(f"{counts[name]:,} {change}" for name, change in happened.items())
    if not changes and not left_out:
        return f"{holds}, and no reward was changed.{_why_unchanged(summary)}"
    sentence = f"{holds}: {changes}." if changes else f"{holds}."
    if left_out:
        sentence += f" {counted(left_out, 'rollout was', 'rollouts were')} left out."
    return sentence


def _why_unchanged(summary: Summary) -> str:
    """Why `denoise` changes no reward although some are flagged, and what would make it; empty elsewhere."""
    if not goes_by_verdicts(summary) or not summary["counts"]["flagged"]:
        return ""
    why = " Flags change nothing where the verdicts do not tell how often the verifier errs."
    if summary["labels"]["files"] or summary["appeals"]:
        return f"{why} More labels may."
    return f"{why} With labels (--labels) or a second verifier (--second-verifier) they can."
