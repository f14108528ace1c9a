"""The same mathematics written the obvious way: the reference that the fast form is checked and timed against.

Every pair's unit displacement is a row of one [P, d] tensor, and both orientations of every pair go through all layers.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from geoalign.method.projector import Projector
from geoalign.types import Rollouts


@dataclass(frozen=True, eq=False)
class NaivePairs:
    """Pairs by input row, and their unit displacements as rows."""

    winner: list[int]
    loser: list[int]
    margin: Float[Tensor, " p"]
    displacement: Float[Tensor, "p d"]


def naive_pairs(rollouts: Rollouts) -> NaivePairs:
    assert rollouts.hidden is not None
    rewards, groups = rollouts.rewards.tolist(), rollouts.groups.tolist()
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    winner, loser = [], []
    for rows in members.values():
        for k in rows:
            for l in rows:  # noqa: E741 - the paper's letter
                if rewards[k] > rewards[l]:
                    winner.append(k)
                    loser.append(l)
    margin = rollouts.rewards[winner] - rollouts.rewards[loser]
    hidden = rollouts.hidden.float()
    return NaivePairs(winner, loser, margin, functional.normalize(hidden[winner] - hidden[loser], dim=1))


def naive_forward(projector: Projector, displacement: Float[Tensor, "p d"]) -> Float[Tensor, "p o"]:
    value = displacement
    for index, linear in enumerate(projector.linears):
        value = linear(functional.relu(value) if index else value)
    return value


def naive_loss(
    projector: Projector, probe: Float[Tensor, " o"], displacement: Float[Tensor, "p d"]
) -> Float[Tensor, ""]:
    """Eq. 4 as it is written."""
    forward = naive_forward(projector, displacement) @ probe
    backward = naive_forward(projector, -displacement) @ probe
    return (functional.softplus(-forward) + functional.softplus(backward)).mean()


def naive_distil(
    projector: Projector, probe: Tensor, displacement: Float[Tensor, "p d"], *, steps: int, learning_rate: float
) -> float:
    """Adam on all pairs in every step, the learning rate falling to zero along a cosine; returns the last loss."""
    probe.requires_grad_()
    optimizer = torch.optim.Adam([*projector.parameters(), probe], lr=learning_rate)
    loss = torch.tensor(math.nan)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.zero_grad()
        loss = naive_loss(projector, probe, displacement)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def naive_scores(projector: Projector, pairs: NaivePairs, rows: int) -> Float[Tensor, " b"]:
    """Eqs. 5 to 7: prototype, deviation, and each rollout's sum over its pairs; NaN for a rollout in none."""
    directions = functional.normalize(naive_forward(projector, pairs.displacement), dim=1)
    prototype = functional.normalize((pairs.margin[:, None] * directions).sum(0), dim=0)
    deviation = (1 - directions @ prototype).tolist()
    scores: list[float | None] = [None] * rows
    for k, l, s in zip(pairs.winner, pairs.loser, deviation, strict=True):  # noqa: E741
        scores[k] = (scores[k] or 0.0) + s
        scores[l] = (scores[l] or 0.0) + s
    return torch.tensor([math.nan if score is None else score for score in scores])
