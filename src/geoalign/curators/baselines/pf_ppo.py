"""PF-PPO: rollouts drawn by the rank of their reward."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.curators.base import Baseline
from geoalign.curators.batches import Group, groups_of, subset, taking
from geoalign.errors import InputError
from geoalign.settings import Count, setting, settings
from geoalign.types import Curation, Rollouts

Variant = Literal["br", "bw"]


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
    best, worst = _extremes(rewards[shuffled])
    weights = torch.zeros(n) if variant == "bw" else torch.full((n,), 0.5 / (n - 1))
    weights[shuffled[best]] = 0.5
    if variant == "bw":
        weights[shuffled[worst]] = 0.5
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
    best, worst = _extremes(rewards)
    if variant == "bw":
        return torch.tensor([best, worst])
    other = int(torch.randint(n - 1, (1,), generator=generator))
    return torch.tensor([best, other + (other >= best)])


def _extremes(rewards: Tensor) -> tuple[int, int]:
    """The first position of the highest reward, and the first of the lowest among the others."""
    best = int((rewards == rewards.max()).nonzero()[0])
    others = torch.cat([rewards[:best], rewards[best + 1 :]])
    worst = int((others == others.min()).nonzero()[0])
    return best, worst + (worst >= best)


@settings
class PFPPOConfig:
    mode: Literal["paper", "filter"] = setting(
        default="paper", help="Draws within the group with replacement, or two rows of the group."
    )
    draws: Count | None = setting(
        default=None, help="Rows drawn per group in mode 'paper'; null: as many as the group has."
    )


@settings
class PFPPOBestRandomConfig(PFPPOConfig):
    type: ClassVar[str] = "pf_ppo_br"


@settings
class PFPPOBestWorstConfig(PFPPOConfig):
    type: ClassVar[str] = "pf_ppo_bw"


_Config = TypeVar("_Config", bound=PFPPOConfig)


class PFPPO(Baseline[_Config]):
    """Policy filtration (arXiv 2409.06957): draws the best rollout of a group most often, beside random or worst ones.

    `mode`:
    - "paper": `draws` rows of each group with replacement (None: as many as it has rewards), BR: best 1/2, every other
      1/(2(n-1)); BW: best 1/2, worst 1/2. Without importance correction, before the advantage.
    - "filter": two rows of each group, none twice: the first best and another one (BR) or the first worst (BW).

    A row with `donor_ok` False takes nobody's place, one without a reward is never drawn.

    Raises:
        InputError: `draws` is larger than a group; the message names the group.
    """

    variant: ClassVar[Variant]

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        groups = [group for group in groups_of(rollouts) if len(group.rows)]
        if self.config.mode == "paper":
            return self._drawn(rollouts, groups, generator)
        kept = [group.rows[filtered_pair(group.rewards, self.variant, generator)] for group in groups]
        return subset(rollouts, kept, {})

    def _drawn(self, rollouts: Rollouts, groups: list[Group], generator: torch.Generator | None) -> Curation:
        source, fit = torch.arange(len(rollouts)), torch.ones(len(rollouts))
        if rollouts.donor_ok is not None:
            fit = rollouts.donor_ok.cpu().float()
        drawn, without = [], 0
        for group in groups:
            size = len(group.rows) if self.config.draws is None else self.config.draws
            if size > group.size:
                raise InputError(
                    f"PFPPO: expected draws of at most the {group.size} rollouts of a group, got {size} in group "
                    f"{group.name}"
                )
            weights = paper_weights(group.rewards, self.variant, generator) * fit[group.rows]
            if not bool(weights.any()):
                # Nobody may take another's place: the group stays as it is.
                without += 1
                drawn.append(group.rows)
                continue
            chosen = torch.multinomial(weights, size, replacement=True, generator=generator)
            if size == len(group.rows):
                chosen = _own_places_first(chosen)
                source[group.rows] = group.rows[chosen]
            drawn.append(group.rows[chosen])
        metrics = {"groups_without_donor": float(without)}
        if self.config.draws is not None and sum(map(len, drawn)) < len(rollouts):
            return subset(rollouts, drawn, metrics)
        return taking(rollouts, source, {**metrics, "replaced": float((source != torch.arange(len(source))).sum())})


class PFPPOBestRandom(PFPPO[PFPPOBestRandomConfig]):
    """PF-PPO with the best and random rollouts of a group: the registry's `pf_ppo_br`."""

    variant = "br"


class PFPPOBestWorst(PFPPO[PFPPOBestWorstConfig]):
    """PF-PPO with the best and the worst rollout of a group: the registry's `pf_ppo_bw`."""

    variant = "bw"


def _own_places_first(chosen: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The same draws, arranged so that what was drawn stays in its own place, once."""
    arranged = torch.arange(len(chosen))
    counts = torch.bincount(chosen, minlength=len(chosen))
    arranged[counts == 0] = torch.repeat_interleave(arranged, (counts - 1).clamp(min=0))
    return arranged
