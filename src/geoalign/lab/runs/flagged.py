"""Rollouts that a curator flagged, with their texts, and what became of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geoalign.files.rollout_step import RolloutStep
from geoalign.lab.runs.reading import Run
from geoalign.lab.runs.rollouts import read_texts
from geoalign.text import visible

_MISSING = ("(not in the file)", "(not in the file)")
# The curators whose score is the log-odds that a reward is wrong.
_LOG_ODDS = ("denoise",)


@dataclass(frozen=True)
class FlaggedRollout:
    """One flagged rollout; `rank`: of its score among the `scored` ones of its step, the highest first.

    `donor_response` is empty where the rollout was not replaced.
    """

    step: int
    row: int
    prompt: str
    response: str
    reward: float
    true_reward: float
    flipped: bool
    score: float
    rank: int
    scored: int
    outcome: str
    donor_response: str


def flagged_rollouts(run: Run, rollouts: RolloutStep, most: int) -> list[FlaggedRollout]:
    """The highest-scored flagged rollouts of a step of a run, of as many prompts as there are, at most `most`."""
    score = np.where(rollouts.scored, rollouts.score, -np.inf)
    flagged = [int(at) for at in np.argsort(-score, kind="stable") if rollouts.anomalous[at]]
    order = _by_prompt(flagged, rollouts.group.tolist())[:most]
    donors = [int(rollouts.source[at]) for at in order]
    texts = read_texts(rollouts, [*(int(rollouts.row[at]) for at in order), *donors])
    found = []
    for at, source in zip(order, donors, strict=True):
        row = int(rollouts.row[at])
        prompt, response = texts.get(row, _MISSING)
        replaced = source not in (row, -1)
        found.append(
            FlaggedRollout(
                step=rollouts.step,
                row=row,
                prompt=visible(prompt),
                response=visible(response),
                reward=float(rollouts.reward[at]),
                true_reward=float(rollouts.true_reward[at]),
                flipped=bool(rollouts.flipped[at] and rollouts.flip_known[at]),
                score=float(rollouts.score[at]),
                rank=int((score > score[at]).sum()) + 1,
                scored=int(rollouts.scored.sum()),
                outcome=_outcome(run, rollouts, at),
                donor_response=visible(texts.get(source, _MISSING)[1]) if replaced else "",
            )
        )
    return found


def _by_prompt(rows: Sequence[int], groups: Sequence[int]) -> list[int]:
    """The first row of every group, then the second of each, and so on; otherwise in their order."""
    before: dict[int, int] = {}
    turns = []
    for row in rows:
        group = groups[row]
        turns.append(before.get(group, 0))
        before[group] = turns[-1] + 1
    return [row for _, row in sorted(zip(turns, rows, strict=True), key=lambda item: item[0])]


def _outcome(run: Run, rollouts: RolloutStep, at: int) -> str:
    """What the curator did with the rollout at a place of a step."""
    row = int(rollouts.row[at])
    source = int(rollouts.source[at])
    if source == -1:
        return "left out of the batch"
    if source != row:
        return f"replaced by row {source}"
    if rollouts.weight[at] == 0:
        return "weight 0"
    copies = int((rollouts.source == row).sum()) - 1
    if copies > 0:
        return f"amplified: copied over {copies} other row(s)"
    if run.curator_name.startswith("geoalign"):
        return "unchanged: no stable donor in its group, or the gate was closed"
    if run.curator_name == "monitor":
        return "unchanged: the curator only watches"
    if run.curator_name in _LOG_ODDS:
        return _denoised(run, rollouts.step, float(rollouts.score[at]))
    return "kept in its place"


def _denoised(run: Run, step: int, score: float) -> str:
    """How likely the reward was taken to be wrong, and whether the rewards of its batch were corrected."""
    wrong = 1 / (1 + math.exp(-score))
    judged = f"judged wrong with probability {wrong:.0%}"
    if wrong > 0.995:
        judged = "judged wrong with probability over 99%"
    # A generation after N updates is curated for update N + 1.
    for line in run.metrics:
        change = line.values.get("geoalign/mean_change")
        if line.stage == "rl" and line.step > step and change is not None:
            return f"{judged}, reward corrected" if change > 0 else f"{judged}, rewards of this batch kept"
    return judged
