"""Binary rewards: what the model of noisy verdicts believes of them."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geoalign.curators.denoising.belief import LIMIT, Belief, certain
from geoalign.curators.denoising.rows import NoisyRows, contradictory_rows
from geoalign.curators.denoising.wrong_share import REFIT_ROUNDS, leave_one_block_out, share_metrics, weighted_mean
from geoalign.method.doubly_robust import robust_truth
from geoalign.method.intervals import Interval
from geoalign.method.verdicts import (
    Clusters,
    VerdictModel,
    Verdicts,
    cluster_probabilities,
    fit_verdicts,
    row_probabilities,
)

# Prior of theta on the features of a cluster: constant, log share, prediction, and no answer (exclusive clusters) or
# the verdicts on the rest of the group (others).
_EXCLUSIVE_PRIOR = (0.0, 1.0, 0.0, -2.0)
_INDEPENDENT_PRIOR = (0.0, 0.0, 0.0, 1.0)
# Pseudo-counts of right and wrong verdicts. Answers tell the flip rates; without them only the curvature of the odds in
# the prediction does, and rates that are thought too good would leave it unused.
_EXCLUSIVE_COUNTS, _INDEPENDENT_COUNTS = (16.0, 4.0), (6.0, 4.0)


def is_binary(rows: NoisyRows) -> bool:
    """Whether the rewards have at most two values."""
    return len(rows.rewards[rows.scored].unique()) <= 2


def believe_verdicts(
    rows: NoisyRows,
    z: Float[Tensor, " n"] | None,
    *,
    answers: bool,
    cluster_prior: float | None,
    unbiased: bool = False,
    share_interval: bool = False,
) -> Belief:
    """The belief about binary rewards; those of groups of one, or that are all equal, are right.

    With `unbiased` the estimates are doubly robust.

    The bounds of the share of wrong ones, which take five more fits, are 0 and 1 without `share_interval`.
    """
    scored = rows.accompanied
    values = rows.rewards[scored].unique()
    exclusive = answers and bool(rows.answered.any())
    if len(values) < 2 or (z is None and not exclusive and not bool(contradictory_rows(rows).any())):
        return certain(rows)
    low, high = float(values[0]), float(values[1])
    right = rows.rewards == high
    clusters = _clusters(rows, z, right, exclusive=exclusive)
    prior = torch.tensor(_EXCLUSIVE_PRIOR if exclusive else _INDEPENDENT_PRIOR, dtype=torch.float64)
    free = torch.tensor([True, exclusive and cluster_prior is None, z is not None, True])
    if exclusive and cluster_prior is not None:
        prior[1] = cluster_prior
    counts = _EXCLUSIVE_COUNTS if exclusive else _INDEPENDENT_COUNTS
    start = VerdictModel(0.8, 0.2, prior.clone(), prior, free, counts)
    verdicts = Verdicts(right, scored, rows.trusted)
    model = fit_verdicts(clusters, verdicts, start)
    truth = row_probabilities(clusters, verdicts, model)
    unseen = cluster_probabilities(clusters, model.theta)[clusters.member]
    estimated, recovered = truth, 1.0
    if unbiased:
        estimated, recovered = robust_truth(truth, unseen, rows.weights * (scored & ~rows.trusted))
    odds = torch.logit(truth, eps=1e-13)
    span, known = high - low, certain(rows)
    share = _wrong_share(clusters, verdicts, model, rows, interval=share_interval)
    return Belief(
        log_odds=torch.where(scored, torch.where(right, -odds, odds).clamp(-LIMIT, LIMIT), known.log_odds),
        expected=torch.where(scored, low + span * truth, rows.rewards),
        estimate=torch.where(scored, low + span * estimated, rows.rewards),
        variance=torch.where(scored, span**2 * truth * (1 - truth), known.variance),
        prior=torch.where(scored, low + span * unseen, rows.rewards),
        scale=torch.full_like(rows.rewards, span),
        bounds=(low, high),
        metrics={
            "true_positive_rate": model.true_positive,
            "false_positive_rate": model.false_positive,
            "informedness": model.informedness,
            **share_metrics(share),
            "cluster_prior": float(model.theta[1]) if exclusive else torch.nan,
            "prediction_weight": float(model.theta[2]),
            "recovered": recovered,
        },
    )


def _wrong_share(
    clusters: Clusters, verdicts: Verdicts, model: VerdictModel, rows: NoisyRows, *, interval: bool
) -> Interval:
    def share(given: VerdictModel, counted: Bool[Tensor, " n"]) -> float:
        truth = row_probabilities(clusters, verdicts, given)
        return weighted_mean(torch.where(verdicts.right, 1 - truth, truth)[counted], rows.weights[counted])

    def share_without(left_out: Bool[Tensor, " n"]) -> float:
        kept = clusters.weights.index_put((clusters.member[left_out],), torch.zeros((), dtype=torch.float64))
        refit = fit_verdicts(replace(clusters, weights=kept), verdicts, model, rounds=REFIT_ROUNDS)
        return share(refit, judged & ~left_out)

    judged = verdicts.scored & ~verdicts.trusted
    estimate = share(model, judged)
    return leave_one_block_out(estimate, rows.group, share_without) if interval else Interval(estimate, 0.0, 1.0)


def _clusters(
    rows: NoisyRows, z: Float[Tensor, " n"] | None, right: Bool[Tensor, " n"], *, exclusive: bool
) -> Clusters:
    member = rows.answer if exclusive else rows.response
    count = int(member.max()) + 1
    size = torch.bincount(member, minlength=count).double()
    group = torch.zeros(count, dtype=torch.long)
    group[member] = rows.group
    in_group = torch.bincount(rows.group).double()

    def total(values: Tensor) -> Tensor:
        return torch.zeros(count, dtype=torch.float64).index_add_(0, member, values.double())

    if exclusive:
        last = (total(~rows.answered) > 0).double()
    else:
        scored = total(rows.scored)
        yes, all_scored = total(right), torch.zeros_like(in_group).index_add_(0, rows.group, rows.scored.double())
        all_yes = torch.zeros_like(in_group).index_add_(0, rows.group, right.double())
        last = torch.log((all_yes[group] - yes + 0.5) / (all_scored[group] - scored - (all_yes[group] - yes) + 0.5))
    share = (size / in_group[group]).log()
    mean = torch.zeros_like(size) if z is None else total(z) / size
    features = torch.stack([torch.ones_like(size), share, mean, last], dim=1)
    weights = total(rows.weights) / size
    return Clusters(member, group if exclusive else torch.arange(count), features, weights)
