"""Continuous rewards: what the model of kept and replaced rewards believes of them."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.curators.denoising.belief import LIMIT, Belief, certain
from geoalign.curators.denoising.rows import ROUNDING, NoisyRows, contradictory_rows
from geoalign.curators.denoising.wrong_share import (
    REFIT_ROUNDS,
    leave_one_block_out,
    share_metrics,
    weighted_mean,
)
from geoalign.method.doubly_robust import robust_rewards
from geoalign.method.intervals import Interval
from geoalign.method.replaced_rewards import Claims, ReplacementModel, fit_replacement, initial_model, replaced_rewards


def believe_replacement(rows: NoisyRows, z: Float[Tensor, " n"] | None, *, unbiased: bool) -> Belief:
    """The belief about continuous rewards; with `unbiased` its estimates are doubly robust.

    Without predictions only responses that were given different rewards are judged. Groups of equal rewards are left
    out of the fit; they are judged in units of the other groups' deviation.
    """
    y, belief = rows.standardised, certain(rows)
    judged = rows.accompanied & (belief.scale > 0) if z is not None else contradictory_rows(rows)
    if not bool(judged.any()):
        return belief
    claims = _claims(rows, y, z, judged)
    model = fit_replacement(claims, initial_model(claims))
    replaced = replaced_rewards(claims, model)
    mean, scale = belief.prior, belief.scale
    estimate, recovered = replaced.expected, 1.0
    if unbiased:
        estimate, recovered = robust_rewards(claims, replaced)

    def judge(known: Tensor, values: Tensor) -> Tensor:
        return known.masked_scatter(judged, values)

    log_odds = torch.logit(replaced.probability, eps=1e-13).clamp(-LIMIT, LIMIT)
    share = _wrong_share(claims, model, replaced.probability, rows.group[judged])
    # Rows that are not judged are right.
    open_rows = rows.scored & ~rows.trusted
    part = float(rows.weights[open_rows & judged].sum() / rows.weights[open_rows].sum().clamp(min=1e-30))
    return replace(
        belief,
        log_odds=judge(belief.log_odds, log_odds),
        expected=judge(belief.expected, mean[judged] + scale[judged] * replaced.expected),
        estimate=judge(belief.estimate, mean[judged] + scale[judged] * estimate),
        variance=judge(belief.variance, scale[judged].square() * replaced.variance),
        prior=judge(belief.prior, mean[judged] + scale[judged] * replaced.predicted),
        metrics={
            **share_metrics(Interval(part * share.estimate, part * share.low, part * share.high)),
            "prediction_weight": model.slope,
            "recovered": recovered,
        },
    )


def _wrong_share(
    claims: Claims, model: ReplacementModel, probability: Float[Tensor, " n"], group: Int[Tensor, " n"]
) -> Interval:
    """The least share that the fit is compatible with; its interval reaches up to all that follow no prediction."""

    def least_without(left_out: Bool[Tensor, " n"]) -> float:
        kept = replace(claims, weights=claims.weights.masked_fill(left_out, 0.0))
        return fit_replacement(kept, model, rounds=REFIT_ROUNDS).least_share

    least = leave_one_block_out(model.least_share, group, least_without)
    return replace(least, high=max(least.high, weighted_mean(probability, claims.weights * ~claims.trusted)))


def _claims(
    rows: NoisyRows, y: Float[Tensor, " n"], z: Float[Tensor, " n"] | None, judged: Bool[Tensor, " n"]
) -> Claims:
    """What the judged rows claim."""
    response = rows.response[judged].unique(return_inverse=True)[1]
    claim = _equal_claims(y[judged], response)
    about = torch.zeros(int(claim.max()) + 1, dtype=torch.long)
    about[claim] = response
    return Claims(
        rewards=y[judged],
        predictions=torch.zeros_like(y)[judged] if z is None else z[judged],
        claim=claim,
        response=about,
        weights=(rows.weights * (rows.deviation > 0))[judged],
        trusted=rows.trusted[judged],
    )


def _equal_claims(y: Float[Tensor, " n"], response: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Rows of one response whose rewards are equal, up to what padding makes of a reward model's, share a number."""
    order = y.argsort(stable=True)
    order = order[response[order].argsort(stable=True)]
    new = (response[order].diff() != 0) | (y[order].diff() > ROUNDING)
    claim = torch.empty_like(response)
    claim[order] = torch.cat([new.new_zeros(1), new]).cumsum(0)
    return claim
