"""A labelled probe as monitor, and a concept's direction: what trusted rows alone say of the hidden states."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from geoalign.curators.baselines.baseline import Baseline, canonical_rows
from geoalign.curators.curator import identity
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import in_input_order
from geoalign.method.ties import tied_rewards
from geoalign.settings import OpenShare, Positive, setting, settings
from geoalign.types import Curation, Rollouts

_NEWTON_STEPS = 30


class Labelled(NamedTuple):
    """A batch in canonical order, in float64."""

    states: Float[Tensor, "b d"]  # standardised by the trusted rows' mean and standard deviation
    trusted: Bool[Tensor, " b"]  # scored rows whose reward is known to be true
    bad: Bool[Tensor, " b"]  # rows whose reward is in the lower half of the range of the trusted ones
    unscored: Bool[Tensor, " b"]


def labelled(rollouts: Rollouts, order: Tensor) -> Labelled | None:
    """The batch as the probes read it; None without trusted rows of either kind, from which nothing can be learnt."""
    assert rollouts.trusted is not None
    assert rollouts.hidden is not None
    rewards = rollouts.rewards.double()[order]
    trusted = rollouts.trusted[order] & ~rewards.isnan()
    known = rewards[trusted]
    known = tied_rewards(known, torch.zeros_like(known, dtype=torch.long))
    if not len(known) or bool((known == known[0]).all()):
        return None
    states = rollouts.hidden.double()[order]
    spread = states[trusted].std(dim=0, correction=0)
    # A column that is constant in the trusted rows says nothing.
    states = (states - states[trusted].mean(dim=0)) / spread.where(spread > 1e-6, torch.inf)
    return Labelled(states, trusted, rewards < (known.min() + known.max()) / 2, rewards.isnan())


def logistic_log_odds(
    states: Float[Tensor, "n d"], positive: Bool[Tensor, " n"], new: Float[Tensor, "m d"], *, penalty: float
) -> Float[Tensor, " m"]:
    """The log-odds of new rows by a logistic regression, sum log(1 + exp(-s z)) + penalty d/2 |w|^2, z = x'w + b.

    Solved by Newton in the span of the n rows, so wide states cost no more than n^2 d. Both kinds have equal weight in
    all, so the base rate of the labels is not learnt.
    """
    # X = U S V'; the solution lies in the span of V, where a row is x V.
    _, values, basis = torch.linalg.svd(states, full_matrices=False)
    basis = basis[values > 1e-9 * values.max()]
    rows = torch.cat([states @ basis.T, states.new_ones(len(states), 1)], dim=1)
    weights = torch.where(positive, 0.5 / positive.sum().float(), 0.5 / (~positive).sum().float()).double() * len(
        states
    )
    # The intercept is hardly penalised.
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
        """What happens to screened rows is a setting; of rows that are dropped the group's statistics are rid."""
        acts_on = {"screen": "weights", "drop": "rows", "penalty": "rewards"}
        self.acts_on = (acts_on[self.config.strategy],)
        self.drops_rows = self.config.strategy == "drop"
        self.recomputes_advantages = self.drops_rows

    def _curate(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        rows = canonical_rows(rollouts)
        batch = labelled(rollouts, rows.order)
        unchanged = identity(rollouts, {"fitted": float(batch is not None), "anomalous": 0.0})
        if batch is None:
            return unchanged
        positive = batch.bad[batch.trusted]
        odds = logistic_log_odds(batch.states[batch.trusted], positive, batch.states, penalty=self.config.penalty)
        silent = batch.trusted | batch.unscored
        scores = torch.where(batch.bad, -odds, odds).masked_fill(silent, torch.nan).float()
        hit = ~silent & ~batch.bad & (odds > math.log(self.config.threshold / (1 - self.config.threshold)))
        back = in_input_order(rows, rows.order.device)
        scores, hit, silent, odds = (back(each) for each in (scores, hit, silent, odds))
        judged = replace(unchanged, scores=scores, anomalous=hit).with_metrics(anomalous=float(hit.sum()))
        if self.config.strategy == "penalty":
            lowered = rollouts.rewards - (self.config.coefficient * torch.sigmoid(odds)).to(rollouts.rewards)
            return replace(judged, rewards=torch.where(silent, rollouts.rewards, lowered))
        weights = judged.weights.masked_fill(hit, 0.0)
        if self.config.strategy == "screen":
            return replace(judged, weights=weights)
        kept = (~hit).nonzero()[:, 0]
        return replace(judged, source=kept, rewards=rollouts.rewards[kept], weights=weights[kept])


@settings
class ConceptScoreConfig:
    type: ClassVar[str] = "concept_score"

    coefficient: Positive = setting(
        default=0.5, help="How many standard deviations of the concept's score count as much as one of the advantage."
    )


class ConceptScore(Baseline[ConceptScoreConfig]):
    """Subtracts from the advantage how far a state lies along a concept's direction (arXiv 2604.01476).

    The direction v is the mean state of bad trusted rows minus that of good ones, on standardised states, as of
    contrastive pairs; bad are those in the lower half of the range of their rewards. A' = A - coefficient (c - mean of
    c in the group), where c = x'v, divided by its standard deviation over the rows that are not trusted, and A is
    GRPO's. The paper takes its pairs from texts about the concept (a shortcut) and not from rollouts; its abstract says
    no more of how the score enters than that, so the centring and the scale are ours.

    `scores` are c; nothing is flagged. Without trusted rows of either kind, or where the states are all alike, nothing
    changes. Trusted rows have GRPO's advantage and no score.
    """

    requires = ("hidden", "trusted")
    acts_on = ("advantages",)

    def _curate(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        rows = canonical_rows(rollouts)
        batch = labelled(rollouts, rows.order)
        unchanged = identity(rollouts, {"fitted": float(batch is not None)})
        if batch is None:
            return unchanged
        good, bad = (batch.states[batch.trusted & kind].mean(dim=0) for kind in (~batch.bad, batch.bad))
        along = batch.states @ (bad - good)
        open_rows = ~batch.trusted & ~batch.unscored
        spread = along[open_rows].std(correction=0) if bool(open_rows.any()) else along.new_zeros(())
        if not float(spread) > 0:
            return unchanged
        along = (along / spread).masked_fill(~open_rows, torch.nan)
        subtracted = self.config.coefficient * group_advantages(along, rows.group, scale="none")
        back = in_input_order(rows, rows.order.device)
        given = group_advantages(rollouts.rewards, rollouts.groups)
        # In groups of equal rewards there is no advantage to modify.
        size = given[rows.order].abs().nan_to_num()
        unequal = torch.zeros_like(size).index_add(0, rows.group, size)[rows.group] > 0
        advantages = given - back(subtracted * unequal).to(given)
        return replace(unchanged, scores=back(along).float(), advantages=advantages)
