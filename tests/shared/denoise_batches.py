"""Batches whose quality a state tells, and how near a curation comes to the truth."""

from dataclasses import replace

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


def answered(seed, *, groups=32, size=8, wrong=0.3, share=1.0):
    """Verdicts flipped at a rate, answers in a share of the groups: one right, four wrong ones ever rarer."""
    draw = torch.Generator().manual_seed(seed)
    rows = groups * size
    rate = torch.rand(groups, generator=draw).repeat_interleave(size)
    true = (torch.rand(rows, generator=draw) < rate).float()
    group = torch.arange(groups).repeat_interleave(size)
    which = torch.multinomial(0.5 ** torch.arange(4.0), rows, replacement=True, generator=draw)
    labels = [
        None if g >= share * groups else f"{g}: {'right' if t else int(w)}"
        for g, t, w in zip(group.tolist(), true.tolist(), which.tolist(), strict=True)
    ]
    flipped = torch.rand(rows, generator=draw) < wrong
    return Rollouts(rewards=torch.where(flipped, 1 - true, true), groups=group, true_rewards=true, answers=labels)


def repeating(seed, *, alike, wrong=0.3):
    """Verdicts that are wrong for an answer each time, or for each row anew; states tell of the truth."""
    rollouts = answered(seed, wrong=0.0)
    draw = torch.Generator().manual_seed(seed)
    of = {answer: float(torch.rand(1, generator=draw)) for answer in rollouts.answers}
    each = torch.rand(256, generator=draw)
    chance = torch.tensor([of[answer] for answer in rollouts.answers]) if alike else each
    rewards = torch.where(chance < wrong, 1 - rollouts.true_rewards, rollouts.true_rewards)
    hidden = torch.randn(256, 8, generator=draw)
    hidden[:, 0] += 2 * rollouts.true_rewards
    return replace(rollouts, rewards=rewards, hidden=hidden)


def applied(curation, rollouts):
    given = curation.advantages
    return group_advantages(curation.rewards, rollouts.groups) if given is None else given * curation.weights


def cosine(curation, rollouts):
    """Of the applied advantages with those of the true rewards."""
    one, other = applied(curation, rollouts), group_advantages(rollouts.true_rewards, rollouts.groups)
    return float(one @ other / (one.norm() * other.norm()))
