"""How often the verifier behind binary rewards errs, by a model of its verdicts, and whether that may be believed.

The model learns from contradictions: one answer to a prompt judged both ways, or two answers that were both rewarded
where at most one is right. A verifier that is a function of the answer hardly contradicts itself however often it errs,
and one that refuses whole prompts not at all: of both the model knows nothing. `ErrorRates.doubt` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from geoalign.method.intervals import Interval, t_quantile
from geoalign.noise.channel import NoiseFit
from geoalign.noise.error_checks import NEVER, NO_ANSWERS, checked
from geoalign.noise.rows import NoisyRows
from geoalign.noise.units import by_verdict, verdict_units
from geoalign.noise.verdict_patterns import Patterns, patterns_of

LEVEL = 0.95
RATES = ("false_positive_rate", "false_negative_rate", "informedness")


@dataclass(frozen=True)
class ErrorRates:
    """False positive rate, false negative rate and informedness J = 1 - both, by the model; and why not to believe it.

    Where there is a doubt the intervals are NaN, and the estimates a guess: errors that repeat are not in them.
    """

    intervals: tuple[Interval, Interval, Interval]
    doubt: str = ""


def error_rates(rows: NoisyRows, *, exclusive: bool = True, level: float = LEVEL) -> ErrorRates:
    """The rates by the model of noisy verdicts alone, without states, with intervals where it may be believed.

    With t_u the posterior probability that unit u (one answer or response to a prompt) is right, n_u its rows and v_u
    those of them that were rewarded (`geoalign.noise.posterior`),

        FPR = sum (1 - t) v / sum (1 - t) n,   FNR = sum t (n - v) / sum t n,

    the model's rates without the pseudo-counts that hold them where verdicts are few. Rows alone in their group say
    nothing of the verifier and are left out, as are those with neither an answer nor a response that got both verdicts.

    Intervals take groups as independent (`sampling_intervals`), and allow for what the model cannot see, as far as the
    verdicts leave room for it (`geoalign.noise.error_checks`): errors that repeat with the answer, prompts whose
    most frequent answer is refused as a whole, and errors on prompts of a kind that was not met. Where they leave too
    much room, or contradict the model, there are none.
    """
    patterns = patterns_in(rows, exclusive=exclusive)
    if patterns is None:
        return _doubtful([math.nan, math.nan], NO_ANSWERS)
    if not bool((patterns.units.counts > 0).all(dim=1).any()):
        return _doubtful([0.0, 0.0], NEVER)
    fit = patterns.units.fit({}, rounds=1000)
    sampled = sampling_intervals(patterns, fit, int(rows.group.max()) + 1, level)
    found = checked(patterns, fit, sampled[:2], level)
    if isinstance(found, str):
        return _doubtful([each.estimate for each in sampled[:2]], found)
    positive, negative = found
    ends = 1 - positive.high - negative.high, 1 - positive.low - negative.low
    return ErrorRates((positive, negative, Interval(sampled[2].estimate, max(ends[0], -1.0), min(ends[1], 1.0))))


def patterns_in(rows: NoisyRows, *, exclusive: bool = True) -> Patterns | None:
    """The verdicts that tell of the verifier; None where nothing tells wrong ones from right ones: no answers, and no
    response with both verdicts."""
    verdict = (rows.rewards == rows.rewards.nan_to_num(-torch.inf).max()).double()
    contradicted = (by_verdict(rows.response, verdict, rows.scored) > 0).all(dim=1)[rows.response]
    known = rows.accompanied & (rows.answered | contradicted)
    if not bool(known.any()):
        return None
    return patterns_of(rows, verdict_units(rows, torch.zeros_like(verdict), verdict, known, exclusive))


def _doubtful(estimates: list[float], doubt: str) -> ErrorRates:
    positive, negative, informedness = (
        Interval(estimate, math.nan, math.nan) for estimate in (*estimates, 1 - sum(estimates))
    )
    return ErrorRates((positive, negative, informedness), doubt)


def sampling_intervals(patterns: Patterns, fit: NoiseFit, groups: int, level: float) -> list[Interval]:
    """The rates of a fit, with intervals as wide as another draw of groups would move them.

    With psi = (TPR, FPR, theta), s_g the gradient of a group's log-likelihood (by Fisher's identity that of its
    complete data, expected under t) and H the Hessian of the penalised sum, leaving a group out moves psi by H^-1 s_g,
    so the influence of a group on a sum N over units is N_g - (dN / dpsi) H^-1 s_g; Student's t on one degree of
    freedom less than groups. The verifier's rates are cut to [0, 1].
    """
    units, of, times = patterns
    kept, replaced = units.pseudo
    refused, rewarded = units.counts.unbind(1)
    no, yes = units.effective_counts(fit).unbind(1)

    def by_groups(psi: Tensor) -> tuple[Tensor, Tensor]:
        """[G, 4] the sums, and [G, F + 2] the gradients of the log-likelihoods."""
        wrong = torch.stack([1 - psi[0], psi[1]])
        each = fit._replace(theta=psi[2:], error=wrong.sum(), replacement=wrong / wrong.sum())
        before, after = units.probabilities(each)
        every = refused + rewarded
        counts = torch.stack([(1 - after) * rewarded, (1 - after) * every, after * refused, after * every], dim=1)
        of_true_positives = after * (yes / psi[0] - no / (1 - psi[0]))
        of_false_positives = (1 - after) * (yes / psi[1] - no / (1 - psi[1]))
        of_theta = units.features * (after - before)[:, None]
        scores = torch.cat([torch.stack([of_true_positives, of_false_positives], dim=1), of_theta], dim=1)
        sums = counts.new_zeros(len(times), 4).index_add(0, of, counts)
        gradients = scores.new_zeros(len(times), len(psi)).index_add(0, of, scores)
        return sums, gradients

    def totals(psi: Tensor) -> tuple[Tensor, Tensor]:
        """The sums over all groups, and the gradient of the penalised log-likelihood."""
        sums, scores = by_groups(psi)
        apart = kept / (psi[0] - psi[1])
        prior = torch.stack([apart - replaced / (1 - psi[0]), replaced / psi[1] - apart])
        return times @ sums, times @ scores + torch.cat([prior, units.prior_theta - psi[2:]])

    missed, false = fit.error_rates
    psi = torch.cat([torch.stack([1 - missed, false]), fit.theta])
    sums, score = by_groups(psi)
    slope, hessian = jacobian(totals, psi)
    influence = sums - (slope @ torch.linalg.solve(hessian, score.T)).T
    wrong, right = (times @ sums).view(2, 2).unbind(1)
    rates = wrong / right.clamp(min=1e-30)
    errors = (influence[:, ::2] - rates * influence[:, 1::2]) / right.clamp(min=1e-30)
    estimates = torch.cat([rates, 1 - rates.sum().view(1)])
    errors = torch.cat([errors, -errors.sum(dim=1, keepdim=True)], dim=1)
    spread = (times @ errors.square() - (times @ errors).square() / groups) / max(groups - 1, 1)
    reach = t_quantile(level, groups - 1) * (spread.clamp(min=0) * groups).sqrt()
    low, high = estimates - reach, estimates + reach
    # A rate of nearly 0 hardly varies from group to group: at least the bound of as many verdicts without an error.
    high[:2] = torch.maximum(high[:2], 1 - (1 - level) ** (1 / right.clamp(min=1e-30)))
    low[:2], high = low[:2].clamp(min=0), high.clamp(max=1)
    return [Interval(*figures) for figures in zip(*(each.tolist() for each in (estimates, low, high)), strict=True)]
