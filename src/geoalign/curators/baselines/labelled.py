"""A labelled probe as monitor: what trusted rows alone say of the hidden states."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from geoalign.curators.baselines.baseline import Baseline, canonical_rows
from geoalign.curators.curator import identity
from geoalign.method.groups import in_input_order
from geoalign.method.ties import tied_rewards
from geoalign.settings import OpenShare, Positive, setting, settings
from geoalign.types import Curation, Rollouts

_NEWTON_STEPS = 30


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """A batch in canonical order, in float64, with what its trusted rows say.

    Attributes:
        states: [B, d] standardised by the mean and the standard deviation of the trusted rows.
        trusted: [B] scored rows whose reward is known to be true.
        bad: [B] rows whose reward is in the lower half of the range of the trusted ones.
        unscored: [B] rows without a reward.
    """

    states: Float[Tensor, "b d"]
    trusted: Bool[Tensor, " b"]
    bad: Bool[Tensor, " b"]
    unscored: Bool[Tensor, " b"]


def labelled_batch(rollouts: Rollouts, order: Tensor) -> LabelledBatch | None:
    """The batch as the probe reads it; None where trusted rows are not of both kinds, so that nothing can be learnt."""
    assert rollouts.trusted is not None
    assert rollouts.hidden is not None
    rewards = rollouts.rewards.double()[order]
    unscored = rewards.isnan()
    trusted = rollouts.trusted[order] & ~unscored
    known = rewards[trusted]
    known = tied_rewards(known, torch.zeros_like(known, dtype=torch.long))
    if not len(known) or bool((known == known[0]).all()):
        return None
    states = rollouts.hidden.double()[order]
    mean = states[trusted].mean(dim=0)
    spread = states[trusted].std(dim=0, correction=0)
    # A column that is constant in the trusted rows says nothing.
    spread = spread.where(spread > 1e-6, torch.inf)
    middle = (known.min() + known.max()) / 2
    return LabelledBatch(states=(states - mean) / spread, trusted=trusted, bad=rewards < middle, unscored=unscored)


def logistic_log_odds(
    states: Float[Tensor, "n d"], positive: Bool[Tensor, " n"], new: Float[Tensor, "m d"], *, penalty: float
) -> Float[Tensor, " m"]:
    """[M] the log-odds z = x'w + b of new rows by a logistic regression on n rows, of which some are `positive`.

        sum over rows of  weight * log(1 + exp(-s z))  +  penalty * d / 2 * |w|^2

    is least, with s = 1 for positive rows and -1 for the others. Both kinds have equal weight in all, so the base rate
    of the labels is not learnt. Solved by Newton in the span of the n rows, so wide states cost no more than n^2 d.
    """
    # X = U S V'; the solution lies in the span of V, where a row is x V.
    _, singular_values, basis = torch.linalg.svd(states, full_matrices=False)
    basis = basis[singular_values > 1e-9 * singular_values.max()]
    rows = torch.cat([states @ basis.T, states.new_ones(len(states), 1)], dim=1)
    of_positive = 0.5 / positive.sum().float()
    of_others = 0.5 / (~positive).sum().float()
    weights = torch.where(positive, of_positive, of_others).double() * len(states)
    # The intercept, which comes last, is hardly penalised.
    ridge = torch.full((rows.shape[1],), penalty * states.shape[1], dtype=torch.float64)
    ridge[-1] = 1e-6
    solution = torch.zeros(rows.shape[1], dtype=torch.float64)
    for _ in range(_NEWTON_STEPS):
        chance = torch.sigmoid(rows @ solution)
        gradient = rows.T @ (weights * (chance - positive.double())) + ridge * solution
        curvature = (rows.T * (weights * chance * (1 - chance))) @ rows + torch.diag(ridge)
        step = torch.linalg.solve(curvature, gradient)
        # Bounded, so that a first step from flat ground cannot overshoot.
        solution = solution - step / max(1.0, float((rows @ step).abs().max()) / 2)
    return new @ basis.T @ solution[:-1] + solution[-1]


@settings
class LabelledProbeConfig:
    type: ClassVar[str] = "labelled_probe"

    strategy: Literal["screen", "drop", "penalty"] = setting(
        default="screen",
        help="Rewarded rows that the probe calls bad: weight 0, or dropped; or every row's reward lowered.",
    )
    threshold: OpenShare = setting(default=0.5, help="Probability of being bad from which a rewarded row is screened.")
    coefficient: Positive = setting(
        default=1.0, help="With penalty: how many times the probability of being bad is subtracted from the reward."
    )
    penalty: Positive = setting(
        default=0.01, help="L2 penalty of the logistic regression, whose states are standardised."
    )


class LabelledProbe(Baseline[LabelledProbeConfig]):
    """A logistic probe of trusted rows as monitor, with screening or a penalty (Wong, Engels, Nanda 2025).

    The probe is fitted anew in every batch to its trusted rows, of which those in the lower half of the range of their
    rewards are bad, and gives every other row a probability p of being bad. Screening (`screen`: weight 0; `drop`)
    leaves out rows in the upper half that have p above the threshold, `penalty` gives r' = r - coefficient p. There the
    probe was trained on hacks that a rule finds, and screened rows leave the group's statistics; a weight of 0 leaves
    them there, `drop` does not.

    `scores` are the log-odds that a reward is wrong: those of p for rows in the upper half, else their opposite.
    Trusted rows stay and have no score; without any of either kind nothing changes. Nothing is kept from batch
    to batch.

    Needs `hidden` and `trusted`: in training the `labelled_rollouts` of a run. NaN rewards stay NaN.
    """

    requires = ("hidden", "trusted")

    def declare(self) -> None:
        """What happens to screened rows is a setting; only dropping them changes the statistics of their group."""
        acts_on = {"screen": "weights", "drop": "rows", "penalty": "rewards"}
        self.acts_on = (acts_on[self.config.strategy],)
        self.drops_rows = self.config.strategy == "drop"
        self.recomputes_advantages = self.drops_rows

    def _curate(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        config = self.config
        rows = canonical_rows(rollouts)
        batch = labelled_batch(rollouts, rows.order)
        unchanged = identity(rollouts, {"fitted": float(batch is not None)})
        if batch is None:
            return unchanged
        trusted = batch.trusted
        bad_odds = logistic_log_odds(batch.states[trusted], batch.bad[trusted], batch.states, penalty=config.penalty)
        not_judged = trusted | batch.unscored
        wrong_odds = torch.where(batch.bad, -bad_odds, bad_odds).masked_fill(not_judged, torch.nan).float()
        least_odds = math.log(config.threshold / (1 - config.threshold))
        screened = ~not_judged & ~batch.bad & (bad_odds > least_odds)

        back = in_input_order(rows, rows.order.device)
        screened = back(screened)
        judged = replace(unchanged, scores=back(wrong_odds), anomalous=screened)
        if config.strategy == "penalty":
            bad = torch.sigmoid(back(bad_odds))
            lowered = rollouts.rewards - (config.coefficient * bad).to(rollouts.rewards)
            return replace(judged, rewards=torch.where(back(not_judged), rollouts.rewards, lowered))
        weights = judged.weights.masked_fill(screened, 0.0)
        if config.strategy == "screen":
            return replace(judged, weights=weights)
        kept = (~screened).nonzero()[:, 0]
        return replace(judged, source=kept, rewards=rollouts.rewards[kept], weights=weights[kept])
