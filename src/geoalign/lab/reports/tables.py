"""The tables of a report: accuracy before and after, what the curator did, the flagged rollouts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoalign.lab.analysis.consensus import CURATION_SECONDS
from geoalign.lab.analysis.statistics import Interval, wilson_interval
from geoalign.lab.reports.documents import Count, first_middle_last
from geoalign.lab.store.columns import Bools
from geoalign.lab.store.rollouts import RolloutStep, read_texts
from geoalign.lab.store.run import Evaluation, Run
from geoalign.lab.text import inert

FLAGGED_PER_STEP = 8
_ALWAYS_SHOWN = (
    ("pairs", "pairs", "with different rewards, over logged steps"),
    ("groups without a donor", "groups_without_donor", "no stable rollout to replace them: left unchanged"),
)
_SHOWN_IF_ANY = (
    ("zero displacements", "zero_displacements", "pairs of identical hidden states: left out"),
    ("unscored rewards", "unscored_rewards", "rollouts without a reward: weight 0"),
    ("calls with too few scores", "too_few_scores", "nothing was flagged in them"),
    ("calls without spread", "zero_spread", "all scores equal: nothing was flagged in them"),
    ("calls that only observed", "observed_only", "scored, nothing changed"),
)
_MISSING = ("(not in the file)", "(not in the file)")


@dataclass(frozen=True)
class EvaluationRow:
    """One evaluation set before and after RL (the last evaluation so far), each None where not there."""

    set: str
    before: Evaluation | None
    after: Evaluation | None

    @property
    def gain(self) -> float:
        """Accuracy after minus before; NaN where one is not there."""
        return self.after.accuracy - self.before.accuracy if self.before and self.after else math.nan

    @property
    def binary(self) -> bool:
        """Whether its answers are right or wrong."""
        return any(line is not None and line.correct is not None for line in (self.before, self.after))

    @property
    def scored(self) -> bool:
        """Whether reward and accuracy are different things: the reward is not 0 or 1."""
        lines = [line for line in (self.before, self.after) if line is not None]
        return any(line.correct is None and not math.isnan(line.reward) for line in lines)


def evaluation_rows(run: Run) -> list[EvaluationRow]:
    """Each set with its evaluation before RL and after it, or the latest during RL where the run goes on."""
    sets = []
    for name in dict.fromkeys(evaluation.set for evaluation in run.evaluations):
        lines = sorted((line for line in run.evaluations if line.set == name), key=lambda line: line.step)
        latest = {line.stage: line for line in lines}
        before, after, during = (latest.get(stage) for stage in ("before_rl", "after_rl", "rl"))
        sets.append(EvaluationRow(inert(name, 80), before, after or during))
    return sets


def curator_totals(run: Run) -> list[Count]:
    """What the curator did, summed over the logged steps; rollouts and what became of them counted in their files.

    Where there are no rollout files, the logged metrics are summed instead.
    """
    steps = run.rollouts
    rollouts = sum(len(step) for step in steps)
    totals = [
        Count("rollouts", rollouts, 1, "rows of the rollout files"),
        _counted("scored", [step.scored for step in steps], "in at least one pair"),
        _counted("flagged", [step.anomalous for step in steps], "anomalous by the density criterion"),
        _counted("replaced", [step.replaced for step in steps], "the content of another rollout instead"),
    ]
    if not rollouts:
        logged = (("scored", "scored_rollouts"), ("flagged", "anomalous"), ("replaced", "replaced"))
        totals = [total for name, key in logged for total in _logged(run, name, key, "sum over logged steps")]
    for name, key, note in _ALWAYS_SHOWN:
        totals.extend(_logged(run, name, key, note))
    totals.extend(_seconds(run))
    for name, key, note in _SHOWN_IF_ANY:
        totals.extend(total for total in _logged(run, name, key, note) if total.value)
    return totals


def flagged_rows(run: Run) -> tuple[list[dict[str, Any]], int]:
    """The highest-scored flagged rollouts of the first, middle and last step that has some, and how many there are.

    Each with the one that replaced it; texts are made inert, numbers are NaN where not known.
    """
    steps = [step for step in run.rollouts if step.anomalous.any()]
    total = sum(int(step.anomalous.sum()) for step in steps)
    shown = [row for step in reversed(first_middle_last(steps)) for row in _flagged_of(step, run.curator)]
    return shown, total


def _flagged_of(rollouts: RolloutStep, curator: Mapping[str, object]) -> list[dict[str, Any]]:
    score = np.where(rollouts.scored, rollouts.score, -np.inf)
    order = [at for at in np.argsort(-score, kind="stable") if rollouts.anomalous[at]][:FLAGGED_PER_STEP]
    index = {row: at for at, row in enumerate(rollouts.row.tolist())}
    donors = [int(rollouts.source[at]) for at in order]
    texts = read_texts(rollouts, [*(int(rollouts.row[at]) for at in order), *donors])
    rows = []
    for at, source in zip(order, donors, strict=True):
        row = int(rollouts.row[at])
        prompt, response = texts.get(row, _MISSING)
        donor = source if source not in (row, -1) else None
        rows.append(
            {
                "step": rollouts.step,
                "row": row,
                "prompt": inert(prompt),
                "response": inert(response),
                "reward": float(rollouts.reward[at]),
                "true_reward": float(rollouts.true_reward[at]),
                "flipped": bool(rollouts.flipped[at] and rollouts.flip_known[at]),
                "score": float(rollouts.score[at]),
                "rank": int((score > score[at]).sum()) + 1,
                "scored": int(rollouts.scored.sum()),
                "outcome": _outcome(rollouts, int(at), curator),
                "donor_row": donor,
                "donor_response": "" if donor is None else inert(texts.get(donor, _MISSING)[1]),
                "donor_reward": float(rollouts.reward[index[donor]]) if donor in index else float("nan"),
            }
        )
    return rows


def _outcome(rollouts: RolloutStep, at: int, curator: Mapping[str, object]) -> str:
    source, row = int(rollouts.source[at]), int(rollouts.row[at])
    if source == -1:
        return "left out of the batch"
    if source != row:
        return f"replaced by row {source}"
    if rollouts.weight[at] == 0:
        return "weight 0"
    copies = int((rollouts.source == row).sum()) - 1
    if copies > 0:
        return f"amplified: copied over {copies} other row(s)"
    if curator.get("observe_only"):
        return "unchanged: the curator only observes"
    return "unchanged: no stable donor in its group, or before start_step"


def _counted(name: str, masks: Sequence[Bools], note: str) -> Count:
    value, of = sum(int(mask.sum()) for mask in masks), sum(map(len, masks))
    return Count(name, value, value / of if of else math.nan, note)


def _logged(run: Run, name: str, key: str, note: str) -> list[Count]:
    series = run.series(f"geoalign/{key}")
    return [Count(name, float(series.values.sum()), float("nan"), note)] if len(series) else []


def _seconds(run: Run) -> list[Count]:
    logged = [series.values.sum() for key in CURATION_SECONDS if len(series := run.series(key))]
    note = "in the curator and in its pass for hidden states, over logged steps"
    return [Count("seconds", float(sum(logged)), math.nan, note)] if logged else []


def wilson(evaluation: Evaluation | None) -> Interval | None:
    """The interval of an evaluation's accuracy; None where there is none."""
    if evaluation is None or evaluation.correct is None:
        return None
    return wilson_interval(evaluation.correct, evaluation.count)
