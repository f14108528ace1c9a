"""Baselines that train on some of the groups or of their rows, or on rows drawn from them."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from geoalign.curators.baselines.baseline import Baseline, Group, groups_of, half_of_group, subset, with_rows
from geoalign.errors import InputError
from geoalign.method.ties import power_of_two
from geoalign.settings import NotNegative, PositiveShare, Several, Share, setting, settings
from geoalign.types import Curation, Rollouts

_Config = TypeVar("_Config")


class Subset(Baseline[_Config]):
    """Keeps of each group the rows that `_chosen` names; rows without a reward are left out.

    With `advantages` among `requires` the kept rows bring the engine's along; otherwise they are made from them.
    """

    acts_on: tuple[str, ...] | None = ("rows",)
    drops_rows = True
    scores_rows = False

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        groups = groups_of(rollouts)
        kept = [group.rows[self._chosen(group, rollouts)] for group in groups]
        advantages = rollouts.advantages if "advantages" in self.requires else None
        metrics = {"groups_left_out": float(sum(not len(rows) for rows in kept))}
        return subset(rollouts, kept, metrics, advantages=advantages)

    @abstractmethod
    def _chosen(self, group: Group, rollouts: Rollouts) -> Tensor:
        """Which of the group's rows are kept, by their places in `group.rows`, and in which order."""


@settings
class PODSConfig:
    type: ClassVar[str] = "pods"

    m: Several | None = setting(default=None, help="Rollouts kept per group; null: half of it, at least two.")


def max_variance_subset(rewards: Float[Tensor, " n"], m: int) -> Int[Tensor, " m"]:
    """Positions, in descending order of reward, of the m of n >= m >= 2 rewards whose variance is largest.

    They are the i highest and the m - i lowest for the best i (the paper's theorem), so m + 1 candidates are enough:
    first the m highest, then i = 0, 1, ..., m - 1; a later one wins only with a strictly greater variance. The sort is
    stable, so among equal rewards the first rows count as the highest.
    """
    n = len(rewards)
    # By a power of two, which rounds nothing: squares of very large or small rewards leave float32 otherwise. Variances
    # that differ by rounding only decide ties as the authors' code does: in the rewards' own precision.
    rewards = torch.ldexp(rewards, -torch.frexp(rewards.abs().max()).exponent)
    descending = rewards.argsort(descending=True, stable=True)
    candidates = torch.arange(m).repeat(m + 1, 1)
    # Row i + 1 is candidate i: the positions from i on move to the end of the order.
    lowest = torch.arange(m)[None, :] >= torch.arange(m)[:, None]
    candidates[1:] += (n - m) * lowest
    variance = rewards[descending][candidates].var(dim=1)
    first = (variance == variance.max()).nonzero()[0, 0]
    return descending[candidates[first]]


class PODS(Subset[PODSConfig]):
    """Max-variance down-sampling (arXiv 2504.13818): keeps the m rollouts of each group with the largest variance.

    It acts before the advantage: statistics are those of the kept rows. Rows without a reward are left out; a group
    with no more than m rewards is kept whole, and so is a group of one if m is not set. Advantages come with one degree
    of freedom less than m, so m = 1 is refused.

    Raises:
        InputError: m is larger than a group; the message names the group.
    """

    recomputes_advantages = True

    def _chosen(self, group: Group, rollouts: Rollouts) -> Tensor:
        n = len(group.rows)
        m = half_of_group(n)
        if self.config.m is not None:
            if self.config.m > group.size:
                raise InputError(
                    f"PODS: expected m of at most the {group.size} rollouts of a group, got m = {self.config.m} in "
                    f"group {group.name}"
                )
            m = min(self.config.m, n)
        if m == n:
            return torch.arange(n)
        return max_variance_subset(group.rewards, m)


@settings
class CPPOConfig:
    type: ClassVar[str] = "cppo"

    pruning_rate: Share = setting(default=0.5, help="Share of each group that is pruned.")


class CPPO(Subset[CPPOConfig]):
    """Completion pruning (arXiv 2503.22342): drops the share `pruning_rate` of each group with the smallest |A|.

    Needs `advantages`: it acts after the advantage, so the kept rows bring the advantages of the whole group along. At
    least one row of a group is kept; rows without a reward are left out. Ties go by reward, then as in
    `geoalign.curators.curator.tie_order`.
    """

    requires = ("advantages",)
    acts_on = ("rows", "advantages")

    def _chosen(self, group: Group, rollouts: Rollouts) -> Tensor:
        assert rollouts.advantages is not None
        advantages = rollouts.advantages[group.rows]
        infinite = group.rows[~advantages.isfinite()]
        if len(infinite):
            row = int(infinite.min())
            raise InputError(f"CPPO: expected finite advantages, got {float(rollouts.advantages[row])} in row {row}")
        # Half a millionth of a row: 10 * (1 - 0.9) must not fall to 0 by rounding.
        count = max(1, math.floor(len(group.rows) * (1 - self.config.pruning_rate) + 5e-7))
        return advantages.abs().argsort(descending=True, stable=True)[:count]


@settings
class VarianceFilterConfig:
    type: ClassVar[str] = "variance_filter"

    keep: PositiveShare = setting(
        default=0.9, help="Share of the summed deviations of rewards that the kept groups must reach."
    )
    slack: NotNegative = setting(
        default=0.01, help="By how much less than that share is enough, in units of the reward."
    )


class VarianceFilter(Baseline[VarianceFilterConfig]):
    """Filtering by reward variance (RAGEN-2, arXiv 2604.06268): leaves out the groups whose rewards hardly differ.

    Groups are taken by descending standard deviation of their rewards, until the sum of their deviations reaches
    `keep` times that of all groups, less `slack`. These are kept whole, but for rows without a reward. So a group of
    equal rewards is always left out, and so is one with a single reward. This is the linear top-p rule of the
    authors' code with the values that its guide recommends; the paper calls the score a variance, and the code takes
    the deviation. Of equal deviations the group with the smaller id is taken first.

    It acts before the advantage, which is computed within each group and so does not change. The loss is a mean over
    what is left, as in the authors' default (`filter_loss_scaling: none`).

    A batch in which `keep` times the summed deviations is at most `slack` is left out whole.
    """

    headline = ("groups_left_out",)
    acts_on = ("rows",)
    drops_rows = True
    scores_rows = False

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        groups = groups_of(rollouts)
        deviations = torch.tensor([_deviation(group) for group in groups], dtype=torch.float64)
        enough = self.config.keep * float(deviations.sum()) - self.config.slack
        chosen: set[int] = set()
        reached = 0.0
        for place in deviations.argsort(descending=True, stable=True).tolist():
            deviation = float(deviations[place])
            if reached >= enough or deviation == 0:
                break
            chosen.add(place)
            reached += deviation
        none = torch.zeros(0, dtype=torch.long)
        kept = [group.rows if place in chosen else none for place, group in enumerate(groups)]
        metrics = {"groups_left_out": float(len(groups) - len(chosen))}
        return subset(rollouts, kept, metrics)


def _deviation(group: Group) -> float:
    """The standard deviation of the group's rewards, with one degree of freedom less; 0 where they are equal."""
    if not group.varies:
        return 0.0
    rewards = group.rewards.double()
    # In a unit in which the squares neither overflow nor vanish.
    unit = power_of_two(rewards.abs().max())
    return float((rewards / unit).std() * unit)


@settings
class PFPPOBestRandomConfig:
    type: ClassVar[str] = "pf_ppo_br"


@settings
class PFPPOBestWorstConfig:
    type: ClassVar[str] = "pf_ppo_bw"


class PFPPO(Baseline[_Config]):
    """Policy filtration (arXiv 2409.06957): draws the best rollout of a group most often, beside random or worst ones.

    As many rows of each group as it has rewards, with replacement, without importance correction, before the advantage:
    Best-Random (BR): best 1/2, every other 1/(2(n-1)); Best-Worst (BW): best 1/2, worst 1/2. The best and the worst are
    those of the rows that have a reward and may replace others (`donor_ok`), and only they are drawn. A group in which
    these rows are fewer than two, or alone have equal rewards, stays as it is: it would lose its advantages.
    """

    acts_on = ("rows",)
    scores_rows = False

    @abstractmethod
    def _odds(self, best: int, worst: int, n: int) -> Float[Tensor, " n"]:
        """The probability of each of n donors, of which these two are the best and the worst."""

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        source = torch.arange(len(rollouts))
        groups_without_donor = 0
        for group in groups_of(rollouts):
            if len(group.rows) < 2:
                continue
            donors = torch.arange(len(group.rows))
            if rollouts.donor_ok is not None:
                donors = rollouts.donor_ok[group.rows].nonzero()[:, 0]
            rewards = group.rewards[donors]
            if len(donors) < 2 or (group.varies and bool(rewards[0] == rewards[-1])):
                groups_without_donor += 1
                continue
            odds = self._of_donors(rewards, generator)
            chosen = torch.multinomial(odds, len(group.rows), replacement=True, generator=generator)
            source[group.rows] = group.rows[_own_places_first(donors[chosen])]
        replaced = float((source != torch.arange(len(source))).sum())
        metrics = {"groups_without_donor": float(groups_without_donor), "replaced": replaced}
        return with_rows(rollouts, source, metrics)

    def _of_donors(self, rewards: Float[Tensor, " n"], generator: Generator) -> Float[Tensor, " n"]:
        """`_odds` with one of several best (worst) rewards, drawn at random, for the best (worst); never the same."""
        shuffled = torch.randperm(len(rewards), generator=generator)
        mixed = rewards[shuffled]
        best = int((mixed == mixed.max()).nonzero()[0])
        others = torch.cat([shuffled[:best], shuffled[best + 1 :]])
        worst = int((rewards[others] == rewards[others].min()).nonzero()[0])
        return self._odds(int(shuffled[best]), int(others[worst]), len(rewards))


class PFPPOBestRandom(PFPPO[PFPPOBestRandomConfig]):
    """PF-PPO with the best and random rollouts of a group: the registry's `pf_ppo_br`."""

    def _odds(self, best: int, worst: int, n: int) -> Float[Tensor, " n"]:
        return torch.full((n,), 0.5 / (n - 1), dtype=torch.float32).index_fill(0, torch.tensor(best), 0.5)


class PFPPOBestWorst(PFPPO[PFPPOBestWorstConfig]):
    """PF-PPO with the best and the worst rollout of a group: the registry's `pf_ppo_bw`."""

    def _odds(self, best: int, worst: int, n: int) -> Float[Tensor, " n"]:
        return torch.zeros(n, dtype=torch.float32).index_fill(0, torch.tensor([best, worst]), 0.5)


def _own_places_first(chosen: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The same draws, arranged so that what was drawn stays in its own place, once: of 2, 2, 0, 2 it makes 0, 2, 2, 2.

    Places that were not drawn are filled with the further copies of those that were.
    """
    arranged = torch.arange(len(chosen))
    counts = torch.bincount(chosen, minlength=len(chosen))
    arranged[counts == 0] = torch.repeat_interleave(arranged, (counts - 1).clamp(min=0))
    return arranged
