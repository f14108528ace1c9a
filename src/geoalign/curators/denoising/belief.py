"""What is believed of every reward."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.curators.denoising.rows import NoisyRows
from geoalign.curators.denoising.wrong_share import share_metrics
from geoalign.method.advantages import group_advantages
from geoalign.method.intervals import Interval

# Of the log-odds: what is certain.
LIMIT = 30.0


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of N rows.

    Attributes:
        log_odds: [N] that the reward is wrong; -inf where that is excluded.
        expected: [N] expected true reward, in the units of the rewards; NaN where unscored.
        estimate: [N] what the row is given as its reward: the expected one, or an unbiased estimate.
        variance: [N] variance of the true reward around it.
        prior: [N] expected true reward before the row's own was looked at.
        scale: [N] what a difference of rewards is measured in: the deviation of the row's group, the other groups'
            where its rewards are equal, or, of binary rewards, the difference of the two. 0 where all are equal.
        bounds: the two binary rewards, between which the true one lies; None for continuous ones.
        metrics: the noise model's figures.
    """

    log_odds: Float[Tensor, " n"]
    expected: Float[Tensor, " n"]
    estimate: Float[Tensor, " n"]
    variance: Float[Tensor, " n"]
    prior: Float[Tensor, " n"]
    scale: Float[Tensor, " n"]
    bounds: tuple[float, float] | None
    metrics: dict[str, float]

    @property
    def wrong(self) -> Float[Tensor, " n"]:
        """[N] probability that the reward is wrong."""
        return self.log_odds.sigmoid()

    def __getitem__(self, rows: slice) -> Belief:
        by_row = ("log_odds", "expected", "estimate", "variance", "prior", "scale")
        return replace(self, **{name: getattr(self, name)[rows] for name in by_row})

    def surprise(self, rewards: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """[N] rewards minus what was expected of them, in units of `scale`; 0 where that is 0."""
        return ((rewards - self.prior) / self.scale).masked_fill(self.scale == 0, 0.0)

    def corrected(self, correction: Float[Tensor, " n"], rows: NoisyRows) -> Belief:
        """The belief with a correction, in units of `scale`, added to the expected rewards that are not known.

        Binary rewards are then as likely wrong as they are far from the expected one. Of continuous ones the
        probability is that of a single wrong reward, and stays.
        """
        open_rows = rows.scored & ~rows.trusted & (self.scale > 0)
        expected = torch.where(open_rows, self.expected + self.scale * correction, self.expected)
        if self.bounds is not None:
            expected = expected.clamp(*self.bounds)
        # An unbiased estimate may lie beyond the bounds: to clamp it would shrink it again.
        estimate = self.estimate + (expected - self.expected)
        if self.bounds is None:
            return replace(self, expected=expected, estimate=estimate)
        low, high = self.bounds
        wrong = (rows.rewards - expected).abs() / (high - low)
        log_odds = torch.logit(wrong, eps=1e-13).clamp(-LIMIT, LIMIT)
        return replace(
            self,
            expected=expected,
            estimate=estimate,
            variance=torch.where(open_rows, (expected - low) * (high - expected), self.variance),
            log_odds=torch.where(open_rows, log_odds, self.log_odds),
        )

    def advantages(self, group: Int[Tensor, " n"], *, eps: float = 1e-6) -> Float[Tensor, " n"]:
        """A = (m - mean(m)) / (sqrt(E[s^2]) + eps), m the estimates, s^2 the variance of the true rewards.

        E[s^2] = (sum (e - mean e)^2 + sum v (1 - 1/n)) / (n - 1), e the expected rewards and v their variances.
        Dividing by the deviation of m itself would blow up a group whose expected rewards hardly differ: one of which
        nothing is known.
        """
        known = ~self.expected.isnan()
        centred = group_advantages(self.expected, group, scale="none")
        size = int(group.max()) + 1
        count = torch.bincount(group[known], minlength=size).double()
        inner = self.variance.masked_fill(~known, 0) * (1 - 1 / count.clamp(min=1))[group]
        total = torch.zeros(size, dtype=torch.float64).index_add_(0, group, centred.square() + inner)
        centred = group_advantages(self.estimate, group, scale="none")
        return centred / ((total / (count - 1).clamp(min=1)).sqrt() + eps)[group]


def certain(rows: NoisyRows) -> Belief:
    """The belief that every reward is right; before it was seen, the mean of its group was expected."""
    mean = rows.rewards - group_advantages(rows.rewards, rows.group, scale="none")
    own = rows.deviation
    typical = own[own > 0].square().mean().sqrt() if bool((own > 0).any()) else own.new_zeros(())
    values = rows.rewards[rows.scored].unique()
    return Belief(
        log_odds=torch.full_like(rows.rewards, -LIMIT),
        expected=rows.rewards,
        estimate=rows.rewards,
        variance=torch.zeros_like(rows.rewards),
        prior=mean,
        scale=torch.where(own > 0, own, typical),
        bounds=(float(values[0]), float(values[1])) if len(values) == 2 else None,
        metrics={**share_metrics(Interval(0.0, 0.0, 1.0)), "prediction_weight": 0.0},
    )
