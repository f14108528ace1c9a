"""The findings of an inspection, in words and a few numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoalign.lab.analysis.consensus import CHANCE, HEADLINES, Verdict, consensus, level_of
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.analysis.verifier import DoubtfulPrompt, doubtful_prompts, refused_line, verifier_lines
from geoalign.lab.store.columns import Bools
from geoalign.lab.store.inspection import Inspection, Scored
from geoalign.lab.store.logs import MetricRow
from geoalign.lab.store.rollouts import RolloutStep
from geoalign.lab.store.run import Run
from geoalign.lab.store.values import number, whole
from geoalign.lab.text import inert


@dataclass(frozen=True)
class Count:
    """A number in a card: how much, as a share of what (NaN: of nothing), and what it means."""

    name: str
    value: float
    share: float
    note: str


@dataclass(frozen=True)
class Verifier:
    """Sentences on the verifier, one on refused answers, and rows of prompts with their agreed and gold answers."""

    lines: list[str]
    refused: str
    prompts: list[tuple[DoubtfulPrompt, str, str]]
    listed: int


def counts(scored: Scored) -> list[Count]:
    """The rollouts by what became of them; lines that are zero and say nothing are left out."""
    rollouts, first = len(scored), scored.first
    own = scored.source == np.arange(rollouts)
    replaced = ~own & (scored.source >= 0)
    pairs = scored.group_pairs[first]
    known = ~np.isnan(scored.correct)
    wronged = scored.anomalous & (scored.correct == 1)
    paired = int((pairs > 0).sum())
    every = [
        _count("groups", len(first), math.nan, f"{paired:,} of them with different rewards, so with pairs"),
        _count("rollouts", rollouts, math.nan, f"{int((~np.isnan(scored.score)).sum()):,} of them have a score"),
        _count("pairs", int(pairs.sum()), math.nan, "a better and a worse response to the same prompt"),
        _count("flagged", int(scored.anomalous.sum()), rollouts, "their rewards do not fit what the others agree on"),
        _count("replaced", int(replaced.sum()), rollouts, "the content of another rollout instead"),
        _count(
            "changed rewards",
            int(_changed(scored).sum()),
            rollouts,
            "kept with another reward",
        ),
        _count("left out", int((scored.source < 0).sum()), rollouts, "in no group afterwards"),
        _count("correct but flagged", int(wronged.sum()), int(known.sum()), "marked as correct in the input"),
        _count("unscored rewards", int(np.isnan(scored.reward).sum()), rollouts, "form no pair and replace nothing"),
    ]
    always = ("groups", "rollouts", "pairs", "flagged")
    return [item for item in every if item.name in always or item.value]


def _changed(scored: Scored) -> Bools:
    """[B] kept rollouts whose reward is another one afterwards."""
    own = (scored.source == np.arange(len(scored))) & ~np.isnan(scored.reward) & ~np.isnan(scored.new_reward)
    return own & (scored.new_reward != scored.reward)


def _count(name: str, value: int, of: float, note: str) -> Count:
    return Count(name, float(value), value / of if of and not math.isnan(of) else math.nan, note)


def verdict(inspection: Inspection) -> Verdict:
    """Is there a consensus at all? From the summary's own measurement, else from the steps' metrics as for a run."""
    measured = inspection.summary.get("consensus")
    measured = measured if isinstance(measured, Mapping) else {}
    accuracy = _number(measured, "new_group_accuracy", "accuracy")
    if math.isnan(accuracy):
        reason = measured.get("reason")
        other = consensus(as_run(inspection))
        return Verdict(other.level, other.headline, inert(reason), 0) if isinstance(reason, str) else other
    ends = (_number(measured, "new_group_accuracy_low", "low"), _number(measured, "new_group_accuracy_high", "high"))
    chance = _number(measured, "chance_accuracy", "chance")
    chance = CHANCE if math.isnan(chance) else chance
    interval = Interval(accuracy, *ends)
    level = level_of(interval, chance)
    groups = _number(measured, "groups")
    over = "" if math.isnan(groups) else f" over {groups:,.0f} groups"
    span = "undefined" if math.isnan(ends[0] + ends[1]) else f"{ends[0]:.1%} to {ends[1]:.1%}"
    text = (
        "On groups it had not been trained on, what the projector learnt told the better response of a pair from the "
        f"worse one in {accuracy:.1%} of pairs (95% interval{over}: {span}; chance {chance:.0%})."
    )
    return Verdict(level, HEADLINES[level], f"{text} {_advice(level)}".strip(), 0)


def _advice(level: str) -> str:
    if level == "yes":
        return "A flag says that a reward disagrees with this consensus, not that it is wrong."
    if level in ("no", "against"):
        return "Flags without a consensus are no better than chance: read them as a sample, not as a verdict."
    return ""


def _number(values: Mapping[str, Any], *names: str) -> float:
    for name in names:
        value = number(values.get(name))
        if value is not None:
            return value
    return math.nan


def facts(inspection: Inspection) -> list[tuple[str, str]]:
    """Where the rollouts come from and what judged them, as name and value."""
    inputs = _mappings(inspection, "inputs")
    names = [str(item.get("file", "")).rsplit("/", 1)[-1] for item in inputs]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    formats = sorted({str(item.get("format")) for item in inputs if item.get("format")})
    steps = len(np.unique(inspection.scored.step))
    hidden = inspection.summary.get("hidden")
    states = hidden.get("note") or hidden.get("from") if isinstance(hidden, Mapping) else None
    known = [
        ("from", shown),
        ("read as", ", ".join(formats)),
        ("curator", str(inspection.curator.get("type", ""))),
        ("hidden states", "" if states in (None, "none") else str(states)),
        ("seed", str(inspection.summary.get("seed", ""))),
        ("steps", str(steps) if steps > 1 else ""),
        ("texts", "left out (redacted)" if inspection.redacted else ""),
    ]
    return [(name, inert(value, 160)) for name, value in known if value]


def skipped(inspection: Inspection, limit: int = 200) -> tuple[list[str], int]:
    """What was skipped on reading, one sentence each, at most `limit`; and how many there were."""
    rows = _mappings(inspection, "skipped")
    lines = []
    for item in rows[:limit]:
        name = "" if item.get("field") is None else f"{item['field']}: "
        lines.append(inert(f"{item.get('file')}, line {item.get('line')}: {name}{item.get('reason')}", 300))
    return lines, len(rows)


def repeated(inspection: Inspection) -> list[str]:
    """Dumps that were left out because they held the rollouts of another one again."""
    return [
        inert(f"{item.get('file')}: the rollouts of {item.get('same_as')} again", 300)
        for item in _mappings(inspection, "repeated")
    ]


def verifier(inspection: Inspection, limit: int = 100) -> Verifier:
    """What binary rewards say of their verifier, with at most `limit` prompts whose agreed answer it always refuses."""
    lines = verifier_lines(inspection.summary)
    prompts = doubtful_prompts(inspection.summary)
    rows = [(prompt, inert(prompt.answer or "", 120), inert(prompt.gold or "", 120)) for prompt in prompts[:limit]]
    return Verifier(lines, refused_line(inspection.summary), rows, len(prompts))


def _mappings(inspection: Inspection, name: str) -> list[Mapping[str, Any]]:
    """The mappings in a list of the summary; none where there is no such list."""
    items = inspection.summary.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def as_run(inspection: Inspection) -> Run:
    """The folder as the figures of a run read it: a dump is a step, its number in the input is its row."""
    scored = inspection.scored
    steps = []
    for step in np.unique(scored.step).tolist():
        rows = np.flatnonzero(scored.step == step)
        true, reward = scored.true_reward[rows], scored.reward[rows]
        known = ~np.isnan(true) & ~np.isnan(reward)
        steps.append(
            RolloutStep(
                step=step,
                path=inspection.folder,
                row=rows,
                group=scored.group[rows],
                reward=reward,
                true_reward=true,
                flipped=known & (true != reward),
                flip_known=known,
                score=scored.score[rows],
                anomalous=scored.anomalous[rows],
                source=scored.source[rows],
                weight=scored.weight[rows],
            )
        )
    return Run(
        folder=inspection.folder,
        config={"curator": dict(inspection.curator)},
        config_text="",
        versions={},
        metrics=tuple(_metrics(inspection)),
        rollouts=tuple(steps),
        details={},
        evaluations=(),
        finished=True,
        notes=(),
    )


def _metrics(inspection: Inspection) -> list[MetricRow]:
    rows = []
    for item in _mappings(inspection, "steps"):
        metrics, step = item.get("metrics"), whole(item.get("step"))
        if isinstance(metrics, Mapping) and step is not None:
            rows.append(MetricRow("rl", step, {str(name): _number(metrics, name) for name in metrics}))
    return rows
