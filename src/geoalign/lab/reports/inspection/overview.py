"""The findings of an inspection, in words and a few numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas

from geoalign.lab.analysis.consensus import CHANCE, HEADLINES, Verdict, level_of
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.analysis.verifier import doubtful_prompts, refused_line, verifier_lines
from geoalign.lab.reports.documents import Count
from geoalign.lab.store.curation import Inspection
from geoalign.lab.store.rollouts import RolloutStep
from geoalign.lab.text import ends, inert, percent

_COLUMNS = ("group", "reward", "true_reward", "score", "anomalous", "source", "weight")


def counts(scored: pandas.DataFrame) -> list[Count]:
    """The rollouts by what became of them; lines that are zero and say nothing are left out."""
    rollouts = len(scored)
    own = scored["source"] == np.arange(rollouts)
    pairs = scored.drop_duplicates("group")["group_pairs"]
    known, flagged = scored["correct"].notna(), scored["anomalous"]
    wronged = flagged & (scored["correct"] == 1)
    changed = own & (scored["new_reward"] != scored["reward"]) & scored[["reward", "new_reward"]].notna().all(axis=1)
    every = [
        _count("groups", len(pairs), math.nan, f"{(pairs > 0).sum():,} of them with different rewards, so with pairs"),
        _count("rollouts", rollouts, math.nan, f"{scored['score'].notna().sum():,} of them have a score"),
        _count("pairs", pairs.sum(), math.nan, "a better and a worse response to the same prompt"),
        _count("flagged", flagged.sum(), rollouts, "their rewards do not fit what the others agree on"),
        _count("replaced", (~own & (scored["source"] >= 0)).sum(), rollouts, "the content of another rollout instead"),
        _count("changed rewards", changed.sum(), rollouts, "kept with another reward"),
        _count("left out", (scored["source"] < 0).sum(), rollouts, "in no group afterwards"),
        _count("correct but flagged", wronged.sum(), known.sum(), "marked as correct in the input"),
        _count("unscored rewards", scored["reward"].isna().sum(), rollouts, "form no pair and replace nothing"),
    ]
    always = ("groups", "rollouts", "pairs", "flagged")
    return [item for item in every if item.name in always or item.value]


def _count(name: str, value: float, of: float, note: str) -> Count:
    return Count(name, float(value), value / of if of and not math.isnan(of) else math.nan, note)


def verdict(inspection: Inspection) -> Verdict:
    """Is there a consensus at all? From the summary's measurement."""
    measured = inspection.summary.get("consensus") or {}
    accuracy = measured.get("new_group_accuracy")
    if accuracy is None:
        return Verdict("unknown", "No accuracy on new groups was measured.", inert(measured.get("reason") or ""), 0)
    ends_of = (measured.get(f"new_group_accuracy_{end}") for end in ("low", "high"))
    interval = Interval(accuracy, *(math.nan if end is None else end for end in ends_of))
    level = level_of(interval, CHANCE)
    over = f" over {measured['groups']:,} groups" if "groups" in measured else ""
    text = (
        "On groups it had not been trained on, what the projector learnt told the better response of a pair from the "
        f"worse one in {accuracy:.1%} of pairs (95% interval{over}: {ends(interval, percent)}; chance {CHANCE:.0%})."
    )
    return Verdict(level, HEADLINES[level], f"{text} {_ADVICE.get(level, '')}".strip(), 0)


_WITHOUT = "Flags without a consensus are no better than chance: read them as a sample, not as a verdict."
_ADVICE = {
    "yes": "A flag says that a reward disagrees with this consensus, not that it is wrong.",
    "no": _WITHOUT,
    "against": _WITHOUT,
}


def facts(inspection: Inspection) -> list[tuple[str, str]]:
    """Where the rollouts come from and what judged them, as name and value."""
    inputs = inspection.summary["inputs"]
    names = [item["file"].rsplit("/", 1)[-1] for item in inputs]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    formats = sorted({item["format"] for item in inputs})
    steps = len(np.unique(inspection.scored["step"].to_numpy()))
    hidden = inspection.summary["hidden"]
    states = hidden.get("note") or hidden["from"]
    known = [
        ("from", shown),
        ("read as", ", ".join(formats)),
        ("curator", str(inspection.curator.get("type", ""))),
        ("hidden states", "" if states == "none" else states),
        ("seed", str(inspection.summary.get("seed", ""))),
        ("steps", str(steps) if steps > 1 else ""),
        ("texts", "left out (redacted)" if inspection.redacted else ""),
    ]
    return [(name, inert(value, 160)) for name, value in known if value]


def skipped(inspection: Inspection, limit: int = 200) -> tuple[list[str], int]:
    """What was skipped on reading, one sentence each, at most `limit`; and how many there were."""
    rows = inspection.summary["skipped"]
    lines = []
    for item in rows[:limit]:
        name = "" if item["field"] is None else f"{item['field']}: "
        lines.append(inert(f"{item['file']}, line {item['line']}: {name}{item['reason']}", 300))
    return lines, len(rows)


def repeated(inspection: Inspection) -> list[str]:
    """Dumps that were left out because they held the rollouts of another one again."""
    return [
        inert(f"{item['file']}: the rollouts of {item['same_as']} again", 300)
        for item in inspection.summary.get("repeated", ())
    ]


def verifier(inspection: Inspection, limit: int = 100) -> dict[str, Any]:
    """What binary rewards say of their verifier, with at most `limit` prompts whose agreed answer it always refuses."""
    prompts = doubtful_prompts(inspection.summary)
    rows = [{**prompt, **{key: inert(prompt[key] or "", 120) for key in ("answer", "gold")}} for prompt in prompts]
    return {
        "lines": verifier_lines(inspection.summary),
        "refused": refused_line(inspection.summary),
        "prompts": rows[:limit],
        "listed": len(prompts),
    }


def steps_of(inspection: Inspection) -> list[RolloutStep]:
    """The folder as the figures of a run read it: a dump is a step, its number in the input is its row."""
    steps = []
    for step in sorted(inspection.scored["step"].unique().tolist()):
        rows = inspection.scored[inspection.scored["step"] == step]
        columns = {name: rows[name].to_numpy() for name in _COLUMNS}
        known = (rows["true_reward"].notna() & rows["reward"].notna()).to_numpy()
        flipped = known & (columns["true_reward"] != columns["reward"])
        row = rows.index.to_numpy()
        steps.append(RolloutStep(step, inspection.folder, row=row, flipped=flipped, flip_known=known, **columns))
    return steps
