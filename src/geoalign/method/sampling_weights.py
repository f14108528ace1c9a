"""With which weight PF-PPO draws a rollout (arXiv 2409.06957): the paper's form and those of two code bases."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Variant = Literal["br", "bw"]
# What the released codes give the best rollout and every other one.
BEST, OTHER = 0.4, 0.1


def paper_weights(
    rewards: Float[Tensor, " n"], variant: Variant, generator: torch.Generator | None
) -> Float[Tensor, " n"]:
    """One group's probabilities in the paper: BR: best 1/2, every other 1 / (2 (n - 1)); BW: best 1/2, worst 1/2.

    Among several best (worst) rewards one, drawn at random, counts as the best (worst); best and worst are never the
    same row. A single row has probability 1.
    """
    n = len(rewards)
    if n == 1:
        return torch.ones(1)
    shuffled = torch.randperm(n, generator=generator)
    best, worst = _extremes(rewards.cpu()[shuffled])
    if variant == "bw":
        weights = torch.zeros(n)
        weights[shuffled[worst]] = 0.5
    else:
        weights = torch.full((n,), 0.5 / (n - 1))
    weights[shuffled[best]] = 0.5
    return weights


def filtered_pair(
    rewards: Float[Tensor, " n"], variant: Variant, generator: torch.Generator | None
) -> Int[Tensor, " k"]:
    """The two positions that the authors' filter keeps of a group, never one twice; one of a group of one.

    BR: the first best and one other, drawn uniformly. BW: the first best and the first worst of the others.
    """
    n = len(rewards)
    if n == 1:
        return torch.zeros(1, dtype=torch.long)
    best, worst = _extremes(rewards.cpu())
    if variant == "bw":
        return torch.tensor([best, worst])
    other = int(torch.randint(n - 1, (1,), generator=generator))
    return torch.tensor([best, other + (other >= best)])


def buffer_weights(rewards: Float[Tensor, " n"], variant: Variant) -> Float[Tensor, " n"]:
    """One group's weights in the authors' replay buffer, not normalised: it draws over all groups together.

    A stable ascending sort: the best is the last of the highest, the worst the first of the lowest. BR: 0.4 on the
    best and 0.1 on every other (the paper's weights only at n = 5); BW: 1 on both.
    """
    ascending = rewards.cpu().argsort(stable=True)
    weights = torch.zeros(len(rewards)) if variant == "bw" else torch.full((len(rewards),), OTHER)
    if variant == "bw":
        weights[ascending[0]] = 1.0
    weights[ascending[-1]] = 1.0 if variant == "bw" else BEST
    return weights


def batch_weights(rewards: Float[Tensor, " b"], how: Literal["pow", "max_min", "max_random"]) -> Float[Tensor, " b"]:
    """The weights of verl's form, over the whole batch whatever the groups, not normalised.

    "pow": |r|^2 (all alike where every reward is 0). "max_min": 1 on the batch's highest and lowest rewards.
    "max_random": 0.4 on the highest, 0.1 on every other.
    """
    rewards = rewards.cpu().double()
    highest = rewards == rewards.max()
    if how == "max_random":
        return torch.where(highest, BEST, OTHER)
    if how == "max_min":
        return (highest | (rewards == rewards.min())).float()
    squares = rewards.square()
    return squares if bool(squares.any()) else torch.ones_like(squares)


def _extremes(rewards: Tensor) -> tuple[int, int]:
    """The first position of the highest reward, and the first of the lowest among the others."""
    best = int((rewards == rewards.max()).nonzero()[0])
    others = torch.cat([rewards[:best], rewards[best + 1 :]])
    worst = int((others == others.min()).nonzero()[0])
    return best, worst + (worst >= best)
