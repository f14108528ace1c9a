"""Synthetic rollouts with a planted direction of improvement, for benchmarks and studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from geoalign.types import Rollouts


@dataclass(frozen=True, eq=False)
class PlantedBatch:
    """Rollouts with hidden states, and which of their rewards were corrupted."""

    rollouts: Rollouts
    corrupted: Bool[Tensor, " b"]


def synthetic_rollouts(
    groups: int,
    size: int,
    d: int,
    *,
    seed: int,
    states: Literal["isotropic", "compressible"] = "isotropic",
    rewards: Literal["continuous", "binary"] = "continuous",
    signal: float = 1.0,
    corruption: float = 0.05,
) -> PlantedBatch:
    """Hidden states h = prompt + signal * quality * axis + noise, rewards = quality (or its sign), some corrupted.

    `states`: "isotropic" noise has the same variance in all d directions; "compressible" noise falls as 1 / rank, in
    shuffled coordinates, so that few directions hold most of it. Both have variance 1 per coordinate on average. The
    axis is one unit vector whatever `seed`, so that batches of different `seed` share it, as the batches of one
    training do; one unit of quality moves a state by `signal` * d^(1/4) along it. A corrupted binary reward is flipped;
    a corrupted continuous one goes to the group's opposite extreme, with a hair of jitter that avoids ties.
    """
    draw = torch.Generator().manual_seed(seed)
    rows = groups * size
    quality = torch.randn(rows, generator=draw)
    shared = torch.Generator().manual_seed(0)
    axis = torch.nn.functional.normalize(torch.randn(d, generator=shared), dim=0)
    spectrum = torch.ones(d) if states == "isotropic" else 1 / torch.arange(1, d + 1)
    spectrum = spectrum * (d / spectrum.square().sum()).sqrt()
    spectrum = spectrum[torch.randperm(d, generator=shared)]
    hidden = torch.randn(rows, d, generator=draw) * spectrum
    hidden += (signal * d**0.25) * quality[:, None] * axis
    hidden += 2 * (torch.randn(groups, d, generator=draw) * spectrum).repeat_interleave(size, 0)
    group = torch.arange(groups).repeat_interleave(size)
    values = quality if rewards == "continuous" else (quality > 0).float()
    corrupted = torch.rand(rows, generator=draw) < corruption
    given = _corrupt(values.view(groups, size), corrupted.view(groups, size), rewards, draw).flatten()
    rollouts = Rollouts(
        rewards=given, groups=group, hidden=hidden, true_rewards=values, response_keys=torch.arange(rows)
    )
    return PlantedBatch(rollouts, corrupted)


def _corrupt(
    rewards: Tensor, corrupted: Tensor, kind: Literal["continuous", "binary"], draw: torch.Generator
) -> Tensor:
    if kind == "binary":
        return torch.where(corrupted, 1 - rewards, rewards)
    low, high = rewards.amin(1, keepdim=True), rewards.amax(1, keepdim=True)
    opposite = torch.where(rewards < rewards.mean(1, keepdim=True), high, low)
    jitter = 1e-3 * torch.randn(rewards.shape, generator=draw)
    return torch.where(corrupted, opposite + jitter, rewards)
