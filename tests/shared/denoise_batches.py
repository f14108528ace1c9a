"""Batches whose quality a state tells, and how near a curation comes to the truth."""

import torch

from geoalign import Rollouts, group_advantages


def world(seed, *, groups=32, size=8, d=12, wrong=0.3, signal=1.0, binary=False, shortcut=0.0):
    """A batch whose quality lies along the first column, the same one in every batch; `wrong` rewards are corrupted.

    With `shortcut` the rewards also follow the second column, which has nothing to do with the truth.
    """
    draw = torch.Generator().manual_seed(seed)
    rows = groups * size
    quality = torch.randn(rows, generator=draw)
    hidden = torch.randn(rows, d, generator=draw)
    hidden[:, 0] += 2 * signal * quality
    group = torch.arange(groups).repeat_interleave(size)
    true = (quality > 0).float() if binary else quality
    corrupted = torch.rand(rows, generator=draw) < wrong
    by_group = true.view(groups, size)
    low, high = by_group.amin(1, keepdim=True), by_group.amax(1, keepdim=True)
    opposite = torch.where(by_group < by_group.mean(1, keepdim=True), high, low).flatten()
    rewards = torch.where(corrupted, 1 - true if binary else opposite, true) + shortcut * hidden[:, 1]
    return Rollouts(rewards=rewards, groups=group, hidden=hidden, true_rewards=true)


def applied(curation, rollouts):
    given = curation.advantages
    return group_advantages(curation.rewards, rollouts.groups) if given is None else given * curation.weights


def cosine(curation, rollouts):
    """Of the applied advantages with those of the true rewards."""
    one, other = applied(curation, rollouts), group_advantages(rollouts.true_rewards, rollouts.groups)
    return float(one @ other / (one.norm() * other.norm()))
