"""Curation in a loop of tinker-cookbook: in place of its `rl.data_processing.compute_advantages`.

In your loop, or your copy of `prepare_minibatch` in `tinker_cookbook/rl/train.py`:

    session = CurationSession(Denoise(geometry="none"), seed=0)       # once
    groups, advantages, measured = curated(groups, session, answer_of=final_answer)
    data, _ = assemble_training_data(groups, advantages)              # tinker-cookbook's own
    metrics.update(measured)

Set `remove_constant_reward_groups=False`: a group whose rewards are equal may still be told apart. Tinker shows no
hidden states, so curators that need them (GeoAlign) are refused; this Denoise works by answers, baselines by rewards.
Read off thinking-machines-lab/tinker-cookbook at 9dfcc3a2cf44432d621a01005073dc6d76a1e87a.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from geoalign import Rollouts
from geoalign.adapters.assignment import Assignment
from geoalign.adapters.decision import check_can_run, decide, final_advantages, prefixed_metrics
from geoalign.curators.session import CurationSession


def curated(
    groups: Sequence[Any], session: CurationSession, *, answer_of: Callable[[Any], str | None] | None = None
) -> tuple[list[Any], list[Tensor], dict[str, float]]:
    """The groups to train on, the advantages of each [G], and metrics (`geoalign/...`).

    A replaced trajectory is its donor in every field; a dropped one is taken out of its group, and so is a group that
    keeps none. Advantages are tinker-cookbook's, the rewards less their group's mean, unless the curator gives its own.
    A reward NaN is an unscored trajectory: advantage 0, outside of its group's mean.

    Args:
        groups: tinker-cookbook's TrajectoryGroup, of one batch.
        answer_of: Trajectory -> its final answer, or None where it has none; for curators that compare answers.
    """
    given = [] if answer_of is None else ["answers"]
    check_can_run(session, given, how="{need} (answers: by answer_of)")
    ids = torch.tensor([number for number, group in enumerate(groups) for _ in group.trajectories_G])
    rows = [trajectory for group in groups for trajectory in group.trajectories_G]
    tokens = [[step.ac for step in row.transitions] for row in rows]
    logprobs = [[value for action in row for value in action.maybe_logprobs or ()] for row in tokens]
    rollouts = Rollouts(
        rewards=torch.tensor([float(reward) for group in groups for reward in group.get_total_rewards()]),
        groups=ids,
        lengths=torch.tensor([sum(len(action.tokens) for action in row) for row in tokens]),
        logprobs=torch.tensor([math.fsum(row) / len(row) if row else math.nan for row in logprobs]),
        answers=None if answer_of is None else [answer_of(row) for row in rows],
    )
    decision = decide(session, rollouts)
    placed = decision.assignment
    advantages = final_advantages(placed, lambda: centred(placed, ids))
    final = [reward for group in groups for reward in group.final_rewards_G]
    metrics = [one for group in groups for one in group.metrics_G]
    kept: list[tuple[Any, Tensor]] = []
    for number, group in enumerate(groups):
        positions = ((ids == number) & placed.kept).nonzero()[:, 0]
        donors = placed.source[positions].tolist()
        fields = {"trajectories_G": rows, "final_rewards_G": final, "metrics_G": metrics}
        chosen = {name: [values[donor] for donor in donors] for name, values in fields.items()}
        if donors:
            kept.append((replace(group, **chosen), advantages[positions]))
    return [group for group, _ in kept], [values for _, values in kept], prefixed_metrics(decision.metrics)


def centred(placed: Assignment, ids: Tensor) -> Tensor:
    """[B] each reward less the mean of its group's active rows; 0 for the others."""
    active, rewards = placed.active, placed.rewards.nan_to_num(0.0)
    total, count = (
        torch.zeros(int(ids.max()) + 1).index_add(0, ids, one * active) for one in (rewards, active.float())
    )
    return (rewards - (total / count.clamp(min=1))[ids]) * active
