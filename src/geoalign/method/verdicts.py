"""Binary rewards as noisy verdicts: how likely each answer is right, and how often the verdicts are wrong.

Rows that give the same answer, or the same response, form a cluster: they are right or wrong together. A right row is
rewarded with probability TPR, a wrong one with FPR. Where answers are known, at most one cluster of a group is right;
otherwise each cluster is judged by itself. Before any verdict the log-odds of a cluster are theta . features, against
"none of them" with log-odds 0. Expectation maximisation fits TPR, FPR and theta: verdicts of a cluster are independent
given its truth, so their log-likelihood ratios add to the prior log-odds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# Precision of theta's prior.
_PRECISION = 1.0
# A round that moves rates and theta by less ends the fit.
_SETTLED = 1e-6
# A trusted verdict is wrong with this probability.
_TRUSTED = 1e-6


@dataclass(frozen=True, eq=False)
class Clusters:
    """The clusters of N rows.

    Attributes:
        member: [N] each row's cluster.
        rivals: [C] clusters of equal number exclude each other.
        features: [C, F] what speaks for a cluster before its verdicts.
        weights: [C] weight of each cluster in the fit.
    """

    member: Int[Tensor, " n"]
    rivals: Int[Tensor, " c"]
    features: Float[Tensor, "c f"]
    weights: Float[Tensor, " c"]

    def total(self, values: Float[Tensor, " n"]) -> Float[Tensor, " c"]:
        """The sum of a quantity of the rows over each cluster."""
        return values.new_zeros(len(self.rivals)).index_add_(0, self.member, values)


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The verdicts on N rows.

    Attributes:
        right: [N] whether the verdict says right.
        scored: [N] whether there is a verdict.
        trusted: [N] whether the verdict is known to be true.
    """

    right: Bool[Tensor, " n"]
    scored: Bool[Tensor, " n"]
    trusted: Bool[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class VerdictModel:
    """TPR and FPR, and theta [F] with the prior mean and the entries that are fitted.

    `counts` are the pseudo-counts of a verdict that is right and of one that is wrong, for either truth.
    """

    true_positive: float
    false_positive: float
    theta: Float[Tensor, " f"]
    prior: Float[Tensor, " f"]
    free: Bool[Tensor, " f"]
    counts: tuple[float, float]

    @property
    def informedness(self) -> float:
        """J = TPR - FPR: 1 for verdicts that are always right, 0 for verdicts that say nothing."""
        return self.true_positive - self.false_positive


def verdict_evidence(verdicts: Verdicts, model: VerdictModel) -> Float[Tensor, " n"]:
    """log P(verdict | right) - log P(verdict | wrong) of each row; 0 for rows without a verdict."""
    odds = torch.tensor([model.true_positive, model.false_positive], dtype=torch.float64)
    for_right, for_wrong = (odds[0] / odds[1]).log(), ((1 - odds[0]) / (1 - odds[1])).log()
    evidence = torch.where(verdicts.right, for_right, for_wrong)
    sure = torch.logit(torch.tensor(1 - _TRUSTED, dtype=torch.float64))
    evidence = torch.where(verdicts.trusted, torch.where(verdicts.right, sure, -sure), evidence)
    return evidence.masked_fill(~verdicts.scored, 0.0)


def cluster_probabilities(
    clusters: Clusters, theta: Float[Tensor, " f"], evidence: Float[Tensor, " c"] | None = None
) -> Float[Tensor, " c"]:
    """P(cluster is right): a softmax over the rivals and "none of them", of prior log-odds plus evidence."""
    logits = clusters.features @ theta
    if evidence is not None:
        logits = logits + evidence
    count = int(clusters.rivals.max()) + 1 if len(logits) else 0
    highest = logits.new_zeros(count).scatter_reduce(0, clusters.rivals, logits, "amax")
    odds = (logits - highest[clusters.rivals]).exp()
    return odds / ((-highest).exp().index_add(0, clusters.rivals, odds))[clusters.rivals]


def row_probabilities(clusters: Clusters, verdicts: Verdicts, model: VerdictModel) -> Float[Tensor, " n"]:
    """P(row is right | all verdicts): that of its cluster."""
    evidence = clusters.total(verdict_evidence(verdicts, model))
    return cluster_probabilities(clusters, model.theta, evidence)[clusters.member]


def fit_verdicts(clusters: Clusters, verdicts: Verdicts, start: VerdictModel, *, rounds: int = 60) -> VerdictModel:
    """Expectation maximisation from `start`: flip rates with pseudo-counts, theta by one Newton step a round.

    The rates stay between 0.001 and 0.999, and TPR above FPR: verdicts are taken for worse than chance by nobody.
    """
    model = start
    weights = clusters.weights[clusters.member]
    right, judged = verdicts.right, weights * (verdicts.scored & ~verdicts.trusted)
    for _ in range(rounds):
        evidence = clusters.total(verdict_evidence(verdicts, model))
        truth = cluster_probabilities(clusters, model.theta, evidence)
        likely = truth[clusters.member]
        hits, misses = _counts(likely, right, judged), _counts(1 - likely, right, judged)
        true_positive = (hits[0] + model.counts[0]) / (sum(hits) + sum(model.counts))
        false_positive = (misses[0] + model.counts[1]) / (sum(misses) + sum(model.counts))
        middle = (true_positive + false_positive) / 2
        before = model
        model = replace(
            model,
            true_positive=min(max(true_positive, middle + 0.01, 1e-3), 1 - 1e-3),
            false_positive=max(min(false_positive, middle - 0.01, 1 - 1e-3), 1e-3),
            theta=_newton_step(clusters, truth, model),
        )
        if _settled(before, model):
            break
    return model


def _settled(before: VerdictModel, after: VerdictModel) -> bool:
    rates = abs(after.true_positive - before.true_positive) + abs(after.false_positive - before.false_positive)
    return rates < _SETTLED and bool((after.theta - before.theta).abs().max() < _SETTLED)


def _counts(likely: Tensor, right: Tensor, judged: Tensor) -> tuple[float, float]:
    weighed = judged * likely
    return float(weighed[right].sum()), float(weighed[~right].sum())


def _newton_step(clusters: Clusters, truth: Float[Tensor, " c"], model: VerdictModel) -> Float[Tensor, " f"]:
    """Theta after one step up the expected log-likelihood of the truth, with a Gaussian prior; fixed entries stay."""
    features, free = clusters.features, model.free
    expected = cluster_probabilities(clusters, model.theta)
    gradient = features.T @ (clusters.weights * (truth - expected)) - _PRECISION * (model.theta - model.prior)
    count = int(clusters.rivals.max()) + 1
    # Rivals share a weight: they are one group's.
    mean = features.new_zeros(count, features.shape[1]).index_add_(0, clusters.rivals, features * expected[:, None])
    weight = features.new_zeros(count).scatter_reduce(0, clusters.rivals, clusters.weights, "amax")
    hessian = features.T @ (features * (clusters.weights * expected)[:, None]) - mean.T @ (mean * weight[:, None])
    hessian.diagonal().add_(_PRECISION)
    theta = model.theta.clone()
    theta[free] += torch.linalg.solve(hessian[free][:, free], gradient[free])
    return theta
