"""How often the verifier behind binary rewards errs, by a model of its verdicts, and whether that may be believed.

The model learns from contradictions: one answer to a prompt judged both ways, or two answers that were both rewarded
where at most one is right. A verifier that is a function of the answer hardly contradicts itself however often it errs,
and one that refuses whole prompts not at all: of both the model knows nothing. `ErrorRates.doubt` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.functional import jacobian

from geoalign.intervals import Interval, t_quantile
from geoalign.noise.channel import LEVEL, NoiseFit
from geoalign.noise.doubts import NEVER, NO_ANSWERS
from geoalign.noise.error_checks import checked_intervals
from geoalign.noise.rows import NoisyRows
from geoalign.noise.units import got_both_verdicts, verdict_units
from geoalign.noise.verdict_patterns import Patterns, patterns_of

_SMALLEST = 1e-30
# By so much (natural logarithm) the model must explain the verdicts better than chance does. Of 1,440 simulated coins
# 1.3% do (benchmarks/verifier_rates.md). In `denoise`, whose fit has fewer features and limits of their weights, 2 is
# enough.
LEAST_GAIN_OF_RATES = 5.0
RATES = ("false_positive_rate", "false_negative_rate", "informedness")


@dataclass(frozen=True)
class ErrorRates:
    """False positive rate, false negative rate and informedness J = 1 - both, by the model; and why not to believe it.

    Where there is a doubt the intervals are NaN, and the estimates a guess, or NaN: errors that repeat are not in them.
    """

    intervals: tuple[Interval, Interval, Interval]
    doubt: str = ""


def error_rates(rows: NoisyRows, *, exclusive: bool = True) -> ErrorRates:
    """The rates by the model of noisy verdicts alone, without states, with intervals where it may be believed.

    With t_u the posterior probability that unit u (one answer or response to a prompt) is right, n_u its rows and v_u
    those of them that were rewarded (`geoalign.noise.posterior`),

        FPR = sum (1 - t) v / sum (1 - t) n,   FNR = sum t (n - v) / sum t n,

    the model's rates without the pseudo-counts that hold them where verdicts are few. Rows alone in their group say
    nothing of the verifier and are left out, as are those with neither an answer nor a response that got both verdicts.

    Intervals take groups as independent (`sampling_intervals`), and allow for what the model cannot see, as far as the
    verdicts leave room for it (`geoalign.noise.error_checks`): errors that repeat with the answer, prompts whose
    most frequent answer is refused as a whole, and errors on prompts of a kind that was not met. Where they leave too
    much room, or contradict the model, there are none. Where chance explains the verdicts nearly as well as the model
    does, there are no estimates either: the model takes a coin for better than it is.
    """
    patterns = patterns_in(rows, exclusive=exclusive)
    if patterns is None:
        return _doubtful([math.nan, math.nan], NO_ANSWERS)
    if not bool((patterns.units.counts > 0).all(dim=1).any()):
        return _doubtful([math.nan, math.nan], NEVER)
    fit = patterns.units.fit({}, rounds=1000)
    *of_rates, of_informedness = sampling_intervals(patterns, fit, int(rows.group.max()) + 1)
    by_chance = patterns.units.log_likelihood_gain(fit) < LEAST_GAIN_OF_RATES
    found = checked_intervals(patterns, fit, of_rates, by_chance=by_chance)
    if isinstance(found, str):
        return _doubtful([math.nan if by_chance else rate.estimate for rate in of_rates], found)
    false_positive, false_negative = found
    informedness = Interval(
        of_informedness.estimate,
        low=max(1 - false_positive.high - false_negative.high, -1.0),
        high=min(1 - false_positive.low - false_negative.low, 1.0),
    )
    return ErrorRates((false_positive, false_negative, informedness))


def patterns_in(rows: NoisyRows, *, exclusive: bool = True) -> Patterns | None:
    """The verdicts that tell of the verifier; None where nothing tells wrong ones from right ones: no answers, and no
    response with both verdicts."""
    highest = rows.rewards.nan_to_num(-torch.inf).max()
    verdict = (rows.rewards == highest).double()
    known = rows.accompanied & (rows.answered | got_both_verdicts(rows.response, verdict, rows.scored))
    if not bool(known.any()):
        return None
    no_prediction = torch.zeros_like(verdict)
    return patterns_of(rows, verdict_units(rows, no_prediction, verdict, known, exclusive))


def _doubtful(estimates: list[float], doubt: str) -> ErrorRates:
    """The estimates of both rates without intervals, with the reason why there are none."""
    false_positive, false_negative = estimates
    informedness = 1 - (false_positive + false_negative)
    intervals = (
        Interval(false_positive, math.nan, math.nan),
        Interval(false_negative, math.nan, math.nan),
        Interval(informedness, math.nan, math.nan),
    )
    return ErrorRates(intervals, doubt)


def sampling_intervals(patterns: Patterns, fit: NoiseFit, groups: int) -> list[Interval]:
    """The rates of a fit, with intervals as wide as another draw of groups would move them.

    With psi = (TPR, FPR, theta), s_g the gradient of a group's log-likelihood and H the Hessian of the penalised sum,
    leaving a group out moves psi by H^-1 s_g. So the influence of a group on a sum N over units is
    N_g - (dN / dpsi) H^-1 s_g, and that on a rate A / B is (A_g - rate B_g) / B. Student's t has one degree of freedom
    less than groups. The verifier's rates are cut to [0, 1].

    Args:
        groups: how many groups there are, those without verdicts included.

    Returns:
        The false positive rate, the false negative rate, and the informedness, 1 less both.
    """
    likelihood = _PatternLikelihood(patterns, fit)
    times = patterns.times
    missed, false_positive = fit.error_rates
    psi = torch.cat([torch.stack([1 - missed, false_positive]), fit.theta])
    # N_g and s_g by pattern; dN / dpsi and H over all groups.
    sums, gradients = likelihood.by_pattern(psi)
    slope, hessian = jacobian(likelihood.over_all_groups, psi)
    # [P, 4] of each pattern on the errors and rows of wrong units, and on those of right ones.
    influence = sums - (slope @ torch.linalg.solve(hessian, gradients.T)).T

    errors, rows = (times @ sums).view(2, 2).unbind(1)
    rows = rows.clamp(min=_SMALLEST)
    rates = errors / rows
    influence_on_errors = influence[:, ::2]
    influence_on_rows = influence[:, 1::2]
    influence_on_rates = (influence_on_errors - rates * influence_on_rows) / rows
    influence_on_informedness = -influence_on_rates.sum(dim=1, keepdim=True)

    estimates = torch.cat([rates, 1 - rates.sum().view(1)])
    influence = torch.cat([influence_on_rates, influence_on_informedness], dim=1)
    squares = times @ influence.square()
    square_of_sum = (times @ influence).square()
    variance = (squares - square_of_sum / groups) / max(groups - 1, 1)
    reach = t_quantile(LEVEL, groups - 1) * (variance.clamp(min=0) * groups).sqrt()
    low = estimates - reach
    high = estimates + reach
    # A rate of nearly 0 hardly varies from group to group: at least the bound of as many verdicts without an error.
    bound_without_errors = 1 - (1 - LEVEL) ** (1 / rows)
    high[:2] = torch.maximum(high[:2], bound_without_errors)
    low[:2] = low[:2].clamp(min=0)
    high = high.clamp(max=1)
    ends = torch.stack([estimates, low, high], dim=1).tolist()
    return [Interval(*of_rate) for of_rate in ends]


class _PatternLikelihood:
    """The log-likelihood of the verdicts by pattern of groups, as a function of psi = (TPR, FPR, theta)."""

    def __init__(self, patterns: Patterns, fit: NoiseFit) -> None:
        self.patterns = patterns
        self.fit = fit
        # Of the verdicts 0 and 1 of each unit.
        self.effective = patterns.units.effective_counts(fit).unbind(1)

    def by_pattern(self, psi: Float[Tensor, " q"]) -> tuple[Float[Tensor, "p 4"], Float[Tensor, "p q"]]:
        """[P, 4] expected counts, and [P, Q] the gradients of the log-likelihoods.

        The counts are rewarded wrong rows, wrong rows, refused right rows and right rows. The gradient is, by Fisher's
        identity, that of the complete data, expected under P(right).
        """
        units = self.patterns.units
        # psi[0] is the true positive rate, psi[1] the false positive rate.
        error_rates = torch.stack([1 - psi[0], psi[1]])
        at_psi = self.fit._replace(
            theta=psi[2:],
            error=error_rates.sum(),
            replacement=error_rates / error_rates.sum(),
        )
        prior, right = units.probabilities(at_psi)
        refused, rewarded = units.counts.unbind(1)
        rows = refused + rewarded
        counts = torch.stack([(1 - right) * rewarded, (1 - right) * rows, right * refused, right * rows], dim=1)

        no, yes = self.effective
        of_true_positive = right * (yes / psi[0] - no / (1 - psi[0]))
        of_false_positive = (1 - right) * (yes / psi[1] - no / (1 - psi[1]))
        of_theta = units.features * (right - prior)[:, None]
        gradients = torch.cat([of_true_positive[:, None], of_false_positive[:, None], of_theta], dim=1)
        return self._by_pattern(counts), self._by_pattern(gradients)

    def _by_pattern(self, values: Float[Tensor, "c k"]) -> Float[Tensor, "p k"]:
        """[P, K] the sums over the units of each pattern."""
        zeros = values.new_zeros(len(self.patterns.times), values.shape[1])
        return zeros.index_add(0, self.patterns.pattern, values)

    def over_all_groups(self, psi: Float[Tensor, " q"]) -> tuple[Float[Tensor, " 4"], Float[Tensor, " q"]]:
        """The counts over all groups, and the gradient of the penalised log-likelihood."""
        units = self.patterns.units
        times = self.patterns.times
        counts, gradients = self.by_pattern(psi)
        # The pseudo-counts are a prior of e and q, whose gradient this is; that of theta is N(prior_theta, 1).
        true_positive = psi[0]
        false_positive = psi[1]
        kept, replaced = units.pseudo
        apart = kept / (true_positive - false_positive)
        of_rates = torch.stack([apart - replaced / (1 - true_positive), replaced / false_positive - apart])
        of_prior = torch.cat([of_rates, units.prior_theta - psi[2:]])
        return times @ counts, times @ gradients + of_prior
