"""Whether verdicts say how far they are to be believed, and what holds even where they do not.

The noise model learns how often the verifier errs from verdicts on equal answers that contradict each other. A verifier
that repeats its errors with the answer never contradicts itself: then "good verdicts, wrong majority" and "poor
verdicts, right majority" fit equally well, and no rule without labels can choose between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.intervals import Interval, t_quantile
from geoalign.noise.channel import LEVEL, SMALLEST, NoiseFit
from geoalign.noise.doubts import BY_CHANCE
from geoalign.noise.posterior import Posterior
from geoalign.noise.rows import NoisyRows, sum_by_label
from geoalign.noise.trusted import OF_ONE_BATCH, known_truth, ruled_out
from geoalign.noise.units import Units, got_both_verdicts

# Errors on equal answers count as independent while the interval of their correlation holds 0 and stays below this.
REPEATED = 0.5
# With an interval wholly below this, equal answers get different verdicts so often that errors cannot strike verdicts
# one by one: they crowd on some answers, as where a verifier judges the spelling. An exact share of wrong rewards in
# each group gives -1 / (n - 1) in groups of n.
CROWDED = -0.2
# Verdicts are enough if independent errors would give at least this many contradictions. With fewer, the correlation
# must be known within this share of J^2, the agreement between verdicts that the truth explains.
ENOUGH = 250.0
PRECISE = 0.8
# Verdicts rise with the model's prior as steeply as J where its rates are right, and may at most so many times as
# steeply. From few verdicts the fit may explain poor verdicts and a steep prior by good verdicts and a flat prior.
STEEPEST = 2.5
# By so much (natural logarithm, summed over the window) the log-likelihood of the verdicts under the model must exceed
# that by chance. A verifier that flips coins seldom gets there, in 3% of the batches of benchmarks/closed_loop.md: the
# pseudo-counts of the fit take it for better than it is, and then explain its verdicts worse than chance does.
LEAST_GAIN = 2.0
# Answers whose truth is known by trusted rows, from which on these tell how the truth follows the prior, and so the
# rates from the verdicts.
KNOWN_ANSWERS = 20
_TOO_FEW = "there are too few verdicts on equal answers to tell how often they are wrong"


@dataclass(frozen=True)
class Identification:
    """What the verdicts of the recent batches tell of their own reliability.

    Attributes:
        error_correlation: correlation of the verifier's errors on equal answers, 0 if each verdict errs by itself and
            1 if errors repeat with the answer; NaN where no answer was judged twice.
        expected_contradictions: how many pairs of different verdicts on one answer independent errors would give, each
            weighted by the age of its batch.
        informedness: J, true positive rate minus false positive rate.
        log_likelihood_gain: how much better the model explains the verdicts than chance does.
        slope: of verdicts on the model's prior; NaN where the prior is the same for all.
        has_answers: whether any response has an answer that is compared with others.
        known_answers: how many different answers (or responses) trusted rows tell the truth of.
        checked_answers: those of them whose prompt has a verdict on a response that is not trusted.
    """

    error_correlation: Interval
    expected_contradictions: float
    informedness: float
    log_likelihood_gain: float
    slope: float
    has_answers: bool
    known_answers: int
    checked_answers: int

    @property
    def identified(self) -> bool:
        """Whether the model's rates may be relied upon.

        They may where trusted rows tell the truth of enough checked answers. Answers to other prompts, as those of
        labelled rollouts, replace the last three of the tests below: no verdict falls on them, and their prompts may
        differ. Without any answers nothing is tested: the states, and identical responses that got both verdicts, are
        believed unchecked. Else four things must hold:

        - The model explains the verdicts better than chance does.
        - Verdicts on equal answers contradict each other as often as independent errors would, and hardly more often.
          NaN of the correlation, for which there was too little to tell, counts against it.
        - This is known well enough. Two verdicts on an answer agree because of the truth, with a correlation of about
          J^2, or because errors repeat, with one of about `error_correlation`: so that must be known well beside J^2,
          or from many verdicts.
        - Verdicts follow the model's prior hardly more steeply than its rates say.
        """
        if self.checked_answers >= KNOWN_ANSWERS or not self.has_answers:
            return True
        if self.known_answers >= KNOWN_ANSWERS:
            return self.informative
        return self.informative and self.independent and self.precise and self.calibrated

    @property
    def tested(self) -> bool:
        """Whether anything speaks for or against the rates: answers that are compared, or trusted rows."""
        return self.has_answers or self.checked_answers >= KNOWN_ANSWERS

    @property
    def informative(self) -> bool:
        """Whether the model explains the verdicts clearly better than chance does."""
        return self.log_likelihood_gain >= LEAST_GAIN

    @property
    def independent(self) -> bool:
        """Whether contradictions are as frequent as independent errors would make them."""
        return self.error_correlation.low <= 0 and CROWDED <= self.error_correlation.high < REPEATED

    @property
    def precise(self) -> bool:
        """Whether there were verdicts enough on equal answers."""
        half_width = self.error_correlation.high - self.error_correlation.estimate
        return self.expected_contradictions >= ENOUGH or half_width <= PRECISE * self.informedness**2

    @property
    def calibrated(self) -> bool:
        """Whether verdicts rise with the prior at most `STEEPEST` times as steeply as J; there is no lower limit."""
        # True for NaN: a prior that is the same for all tells nothing.
        return not self.slope > STEEPEST * self.informedness

    @property
    def reason(self) -> str:
        """Why the rates are not identified, in words; for those that are it says nothing of use."""
        contradictions_tell = self.independent and self.precise
        if not self.informative and (contradictions_tell or self.known_answers >= KNOWN_ANSWERS):
            return BY_CHANCE
        if contradictions_tell:
            return (
                "verdicts follow how frequent an answer is more closely than the estimated error rates allow, so that "
                "these are not known yet"
            )
        if self.independent:
            return _TOO_FEW
        if self.error_correlation.high < CROWDED:
            return (
                "verdicts on equal answers contradict each other far more often than errors that strike one by one, as "
                "where a verifier judges how an answer is spelt"
            )
        if self.error_correlation.low > 0:
            return "verdicts on equal answers contradict each other too rarely for errors that do not repeat"
        return _TOO_FEW


def identification(units: Units, fit: NoiseFit, answer_keys: Int[Tensor, " n"] | None = None) -> Identification:
    """What the verdicts on `units` say of the fit's own reliability.

    Args:
        answer_keys: [N] `trusted_answer_keys` of the rows, by which an answer of several batches counts once; None: all
            units are different answers.
    """
    missed, false_positive = fit.error_rates.tolist()
    verdicts = units.counts.sum(dim=1)
    judged = verdicts > 0
    known = units.known_log_odds != 0
    in_judged_group = (sum_by_label(verdicts, units.group) > 0)[units.group]
    answered = units.features[:, 0] > 0
    return Identification(
        error_correlation=error_correlation(units, fit),
        expected_contradictions=float(expected_contradictions(units, fit).sum()),
        informedness=1 - missed - false_positive,
        log_likelihood_gain=units.log_likelihood_gain(fit),
        slope=slope_on_prior(units, fit),
        has_answers=bool((answered & judged).any()),
        known_answers=_different_answers(known, units, answer_keys),
        checked_answers=_different_answers(known & in_judged_group, units, answer_keys),
    )


def _different_answers(counted: Bool[Tensor, " c"], units: Units, answer_keys: Int[Tensor, " n"] | None) -> int:
    """How many different answers the counted units are: the same labelled rollouts come with every batch."""
    key_of_unit = torch.full(counted.shape, OF_ONE_BATCH)
    if answer_keys is not None:
        # Keys of trusted rows are not negative, `OF_ONE_BATCH` is: a unit's highest key is that of a trusted row.
        key_of_unit = key_of_unit.scatter_reduce(0, units.of_row, answer_keys, "amax")
    keys = key_of_unit[counted]
    recognised = keys != OF_ONE_BATCH
    return len(keys[recognised].unique()) + int((~recognised).sum())


def expected_contradictions(units: Units, fit: NoiseFit) -> Float[Tensor, " c"]:
    """[C] how many pairs of different verdicts on a unit independent errors at the fitted rates e_t would give.

    Times the unit's weight, w (n^2 - n) E[e_t (1 - e_t)], the expectation over whether the unit is right.
    """
    _, right = units.probabilities(fit)
    truth = torch.stack([1 - right, right], dim=1)
    # e_0, the rate at which a wrong unit is rewarded, and e_1, that at which a right one is refused.
    errors = fit.error_rates.flip(0)
    n = units.counts.sum(dim=1)
    return units.weight * (n.square() - n) * (truth @ (errors * (1 - errors)))


def error_correlation(units: Units, fit: NoiseFit) -> Interval:
    """How much rarer contradictions between verdicts on one unit are than under independent errors: 1 - M / E.

    M = sum w n0 n1 counts the pairs of different verdicts on one unit, E sums `expected_contradictions`. M / E is a
    ratio of sums over the G groups with E_g > 0: its standard error is sqrt(G / (G - 1) sum (M_g - M / E E_g)^2) / E.
    NaN where no unit has two verdicts, or one group alone has. Where M_g / E_g is exactly the same in every group, as
    in data made by hand, the interval has no width.
    """
    mixed = sum_by_label(units.weight * units.counts.prod(dim=1), units.group)
    expected = sum_by_label(expected_contradictions(units, fit), units.group)
    groups = int((expected > 0).sum())
    if groups < 2:
        return Interval(math.nan, math.nan, math.nan)
    ratio = mixed.sum() / expected.sum()
    residual = mixed - ratio * expected
    standard_error = residual.norm() * math.sqrt(groups / (groups - 1)) / expected.sum()
    half_width = t_quantile(LEVEL, groups - 1) * float(standard_error)
    estimate = 1 - float(ratio)
    return Interval(estimate, estimate - half_width, estimate + half_width)


def slope_on_prior(units: Units, fit: NoiseFit) -> float:
    """The slope of the verdicts on the model's prior, over rows, by least squares.

    Its mean is J at the true parameters. At fitted ones it is larger, as the fitted J is. NaN where the prior is the
    same for all rows that were judged.
    """
    prior, _ = units.probabilities(fit)
    rows = units.counts.sum(dim=1)
    weight = units.weight * rows
    total = weight.sum().clamp(min=SMALLEST)
    accepted = units.counts[:, 1] / rows.clamp(min=1)
    centred = prior - weight @ prior / total
    variance = float(weight @ centred.square())
    # Equal priors differ by rounding, some 1e-16 a row.
    if variance <= 1e-20 * float(total):
        return math.nan
    return float(weight @ (centred * accepted)) / variance


def observations_corrected_without_rates(
    rows: NoisyRows, posterior: Posterior, *, exclusive: bool
) -> Float[Tensor, " n"]:
    """[N] the verdicts (0 or 1) as far as they can be put right without an error rate; elsewhere as observed.

    - A response without an answer where one is expected is wrong, unless `posterior.wrong` is at most 0.5 for it: where
      verdicts look that good, its answer was perhaps only not read. This alone asks the fitted rates, to spare a row.
    - Rows of an answer with a trusted row share its verdict. Where that one is right and answers exclude each other,
      every other row of the group is wrong, those without an answer included, even if the first rule spared them.

    Where both rules apply the second decides. Trusted and unscored rows keep what they have.
    """
    observed = posterior.observation
    certain = observed.masked_fill(rows.lacking & (posterior.wrong > 0.5), 0.0)
    known = known_truth(rows, observed)
    certain = torch.where(known.isnan(), certain, known)
    if exclusive:
        certain = certain.masked_fill(ruled_out(rows, observed), 0.0)
    return torch.where(_open_rows(rows), certain, observed)


def disputed(rows: NoisyRows, observed: Float[Tensor, " n"], *, exclusive: bool) -> Bool[Tensor, " n"]:
    """[N] the rows whose verdict something in the batch speaks against: another verdict on the same answer or response,
    or, of a rewarded answer, another rewarded answer of the group where they exclude each other (`exclusive`, unless
    the rows say that those of their group do not)."""
    verdict = observed.nan_to_num()
    mixed = got_both_verdicts(rows.answer, verdict, rows.scored)
    if not exclusive:
        return mixed
    # Each rewarded row counts as its share of its answer's rewarded rows, so that an answer counts once.
    rewarded = rows.scored * verdict
    rewarded_of_answer = sum_by_label(rewarded, rows.answer).clamp(min=1)[rows.answer]
    rewarded_answers = sum_by_label(rewarded * rows.answered / rewarded_of_answer, rows.group)[rows.group]
    several_rewarded = rewarded_answers > 1.5  # two or more: shares do not sum up to whole numbers exactly
    has_rival = (rewarded > 0) & rows.answered & rows.exclusive & several_rewarded
    return mixed | has_rival


def _open_rows(rows: NoisyRows) -> Bool[Tensor, " n"]:
    """[N] the rows whose reward may be changed: scored, not alone in their group, and not trusted."""
    return rows.accompanied & ~rows.trusted
