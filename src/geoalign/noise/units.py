"""Units of evidence for verdicts: an answer to a prompt, with the verdicts on the rows that gave it.

A unit is right or wrong, and so are all of its rows. P(right) of unit u is logistic in its features, theta' x_u; of the
answers to a prompt at most one is right, where they exclude each other. A verifier may err alike on equal answers: with
rho the correlation of its errors on a unit, mixed verdicts are 1 - rho times as frequent, and n verdicts count as
n / (1 + (n - 1) rho).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.noise.channel import COLD_ROUNDS, SMALLEST, NoiseFit, earlier_fit
from geoalign.noise.rows import NoisyRows, sum_by_label
from geoalign.noise.trusted import ruled_out, truth_by_answer

# Pseudo-counts of a group's Beta rate: of two rows the other's verdict must not outweigh a row's own.
_RATE_PSEUDO = 4.0
# Pseudo-count of pairs of verdicts on one unit that err independently.
_PAIRS_PSEUDO = 4.0
# Prior means of theta: answered, log share of the answer, z, a group without answers, its log-odds of being rewarded.
_PRIOR_THETA = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
# Lower bounds of theta: a negative weight of z would explain the very rewards that z contradicts.
_LEAST_THETA = torch.tensor([-torch.inf, -torch.inf, 0.0, -torch.inf, -torch.inf], dtype=torch.float64)
# Log-odds of a response without an answer among answers. Not fitted: a verifier that rewards such would raise them.
_UNANSWERED_LOG_ODDS = -3.0
# Log-odds of what a trusted row tells: more than the verdicts on an answer add up to.
_CERTAIN = 1e6
# e, where EM starts; a number of float32.
_FIRST_ERROR = torch.tensor(0.4, dtype=torch.float32).double()


@dataclass(frozen=True, eq=False)
class Units:
    """C units, each right or wrong, with the verdicts on their rows.

    Attributes:
        of_row: [N] the unit of each row.
        group: [C] the group of each unit.
        counts: [C, 2] how many verdicts 0 and 1 a unit got.
        known_log_odds: [C] log-odds that trusted rows add; 0 where the unit has none.
        features: [C, F] x, what the prior is made of.
        fixed_log_odds: [C] log-odds of the prior that are not fitted: of units without an answer among answers.
        weight: [C] of the unit in the fit.
        exclusive_set: [C] the number of the unit's set, of which at most one unit is right.
        shared: [C] whether the rows say that the answers of the unit's group do not exclude each other.
        prior_theta: [F] prior mean of theta.
        least_theta: [F] lower bound of theta.
        pseudo: pseudo-counts of kept verdicts, and of replaced ones of each value.
    """

    of_row: Int[Tensor, " n"]
    group: Int[Tensor, " c"]
    counts: Float[Tensor, "c 2"]
    known_log_odds: Float[Tensor, " c"]
    features: Float[Tensor, "c f"]
    fixed_log_odds: Float[Tensor, " c"]
    weight: Float[Tensor, " c"]
    exclusive_set: Int[Tensor, " c"]
    shared: Bool[Tensor, " c"]
    prior_theta: Float[Tensor, " f"]
    least_theta: Float[Tensor, " f"]
    pseudo: tuple[float, float]

    def probabilities(self, fit: NoiseFit) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
        """[C] P(right) of each unit before its verdicts are seen, and after."""
        prior_log_odds = self._prior_log_odds(fit)
        posterior_log_odds = prior_log_odds + self._verdict_log_odds(fit) + self.known_log_odds
        return self._shares(prior_log_odds), self._shares(posterior_log_odds)

    @property
    def were_judged(self) -> bool:
        """Whether any verdict tells of the verifier's rates: one on a unit that takes part in the fit."""
        return bool((self.weight @ self.counts > 0).any())

    def chances_of_truth(self, fit: NoiseFit) -> Float[Tensor, " c"]:
        """[C] P(right) of each unit by its prior and by trusted rows, before verdicts are seen."""
        return self._shares(self._prior_log_odds(fit) + self.known_log_odds)

    def log_likelihood_gain(self, fit: NoiseFit) -> float:
        """How much better a fit explains the verdicts than chance does.

        It is the log-likelihood under the fit, minus that of verdicts which accept right and wrong units at one rate.
        With o_u the log-odds of unit u before its verdicts, l_u those that its verdicts add, and n_u its effective
        counts, a set of exclusive units has the log-likelihood

            log(1 + sum exp(o_u + l_u)) - log(1 + sum exp(o_u)) + sum n_u log P(verdict | wrong).

        Sets are summed with the weights of their batches. By chance the verdicts have sum n_v log(n_v / n), n_v being
        the weighted effective counts of verdict v and n their sum.
        """
        effective = self.effective_counts(fit)
        before = self._prior_log_odds(fit) + self.known_log_odds
        false_positive = fit.error_rates[1]
        of_wrong = effective @ torch.stack([1 - false_positive, false_positive]).clamp(min=SMALLEST).log()
        of_set = self._log_odds_of_any(before + self._verdict_log_odds(fit)) - self._log_odds_of_any(before)
        of_set = of_set.index_add(0, self.exclusive_set, of_wrong)
        # The units of a set are of one batch, and so of one weight; those that are not fitted have weight 0.
        weight_of_set = torch.zeros_like(of_set).scatter_reduce(0, self.exclusive_set, self.weight, "amax")
        counts = self.weight @ effective
        rates = counts / counts.sum().clamp(min=SMALLEST)
        by_chance = counts @ rates.clamp(min=SMALLEST).log()
        return float(weight_of_set @ of_set - by_chance)

    def _verdict_log_odds(self, fit: NoiseFit) -> Float[Tensor, " c"]:
        """[C] the log-odds of right that verdicts add: each 1 multiplies the odds by R(1), each 0 divides by R(0)."""
        signs = torch.tensor([-1.0, 1.0]).double()
        return self.effective_counts(fit) @ (fit.likelihood_ratio.log() * signs)

    def _prior_log_odds(self, fit: NoiseFit) -> Float[Tensor, " c"]:
        """[C] the log-odds of right before anything is known of the unit's own rows."""
        return self.features @ fit.theta + self.fixed_log_odds

    def fit(self, earlier: dict[str, Tensor], rounds: int = COLD_ROUNDS) -> NoiseFit:
        """Fits the noise model by EM.

        Each round takes P(right) of the units as given, estimates e and q from the effective counts, rho from the pairs
        of different verdicts, and takes one Newton step of theta.

        Args:
            earlier: the fields of an earlier fit, where EM goes on; {}: it starts anew.
            rounds: the most rounds. EM ends earlier where no parameter changes by 1e-5, which takes hundreds of rounds
                where two verdicts in five are wrong.
        """
        half = torch.full((2,), 0.5).double()
        cold = NoiseFit(
            theta=self.prior_theta,
            error=_FIRST_ERROR,
            replacement=half,
            correlation=torch.zeros(()).double(),
            values=half,
        )
        # An earlier fit goes on for all of these rounds, not for few: rates that were once too good would stay so long.
        fit = earlier_fit(earlier, cold) or cold
        kept, replaced = self.pseudo
        for _ in range(rounds):
            before = fit
            # E step: the truth of the units, and which of their verdicts are right.
            prior, right = self.probabilities(fit)
            truth = torch.stack([1 - right, right], dim=1)
            counts = self.effective_counts(fit)
            # M step: theta, e and q, then rho.
            theta = self._newton_step(fit.theta, prior, right)
            fit = fit.with_channel(self.weight @ counts, self.weight @ (counts * truth), kept, replaced)
            fit = fit._replace(theta=theta, correlation=self._fitted_correlation(fit, truth))
            if fit.is_near(before):
                break
        return fit

    def effective_counts(self, fit: NoiseFit) -> Float[Tensor, "c 2"]:
        """[C, 2] the number of independent verdicts that say as much as these: n / (1 + (n - 1) rho) for n of them."""
        others = (self.counts.sum(dim=1, keepdim=True) - 1).clamp(min=0)
        return self.counts / (1 + others * fit.correlation)

    def _newton_step(
        self, theta: Float[Tensor, " f"], prior: Float[Tensor, " c"], right: Float[Tensor, " c"]
    ) -> Float[Tensor, " f"]:
        """Theta after a Newton step on its expected log-posterior, whose prior is N(prior_theta, 1).

        The gradient is sum w (right - prior) x - (theta - prior_theta). The Hessian of a softmax over an exclusive
        set is sum w prior x x' - s s' with s = sum sqrt(w) prior x over the set, whose units have equal weights. Where
        the step would leave `least_theta`, a weight stays at its bound and the others step as if it stood there.
        """
        x = self.features
        weight = self.weight
        gradient = x.T @ (weight * (right - prior)) - (theta - self.prior_theta)

        sets = int(self.exclusive_set.max()) + 1
        of_unit = x * (prior * weight.sqrt())[:, None]
        of_set = x.new_zeros(sets, x.shape[1]).index_add(0, self.exclusive_set, of_unit)
        squares = x.T @ (x * (weight * prior)[:, None])
        of_prior = torch.eye(x.shape[1]).double()
        hessian = squares - of_set.T @ of_set + of_prior
        step = torch.linalg.solve(hessian, gradient)
        at_bound = theta + step < self.least_theta
        if bool(at_bound.any()):
            free = ~at_bound
            step[at_bound] = (self.least_theta - theta)[at_bound]
            left = gradient[free] - hessian[free][:, at_bound] @ step[at_bound]
            step[free] = torch.linalg.solve(hessian[free][:, free], left)
        return torch.maximum(theta + step, self.least_theta)

    def _fitted_correlation(self, fit: NoiseFit, truth: Float[Tensor, "c 2"]) -> Float[Tensor, ""]:
        """rho = 1 - mixed / expected: how much rarer pairs of different verdicts are than independent errors make them.

        With e_t the error rate of a unit of truth t, expected = sum w (n^2 - n) E[e_t (1 - e_t)].
        """
        n = self.counts.sum(dim=1)
        errors = fit.error_rates.flip(0)
        pairs_by_truth = truth.T @ (self.weight * (n.square() - n))
        expected = pairs_by_truth @ (errors * (1 - errors)) + _PAIRS_PSEUDO
        mixed = self.weight @ self.counts.prod(dim=1) + _PAIRS_PSEUDO
        return (1 - mixed / expected).clamp(0, 1)

    def _shares(self, log_odds: Float[Tensor, " c"]) -> Float[Tensor, " c"]:
        """[C] P(right): a softmax over the units of an exclusive set and "none of them", whose log-odds are 0."""
        odds, odds_of_set, _ = self._scaled_odds(log_odds)
        return odds / odds_of_set[self.exclusive_set]

    def _log_odds_of_any(self, log_odds: Float[Tensor, " c"]) -> Float[Tensor, " s"]:
        """[S] log(1 + sum exp(log-odds)) over the units of each exclusive set."""
        _, odds_of_set, highest = self._scaled_odds(log_odds)
        return odds_of_set.log() + highest

    def _scaled_odds(
        self, log_odds: Float[Tensor, " c"]
    ) -> tuple[Float[Tensor, " c"], Float[Tensor, " s"], Float[Tensor, " s"]]:
        """[C] the odds of the units and [S] their sum with the odds 1 of "none of them", both over exp of the third,
        [S] the highest log-odds of the set, so that none overflows."""
        sets = int(self.exclusive_set.max()) + 1
        none_right = log_odds.new_zeros(sets)
        highest = none_right.scatter_reduce(0, self.exclusive_set, log_odds.detach(), "amax")
        odds = (log_odds - highest[self.exclusive_set]).exp()
        return odds, (-highest).exp().index_add(0, self.exclusive_set, odds), highest


def verdict_units(
    rows: NoisyRows,
    prediction: Float[Tensor, " n"],
    verdict: Float[Tensor, " n"],
    judged: Bool[Tensor, " n"],
    exclusive: bool,
) -> Units:
    """The units of the rows.

    The features of an answer are 1, its log share of the group, and its mean prediction; those of a response in a group
    without answers are 1 and the log-odds at which the rest of the group is rewarded. A response without an answer
    among answers has fixed log-odds, and weight 0: each reward of one would raise the false positive rate. It is wrong
    for certain where answers exclude each other and a trusted row shows one of the group's to be right.

    Args:
        prediction: [N] z, a prediction of the true reward; zeros where there is none.
        verdict: [N] 0 or 1.
        judged: [N] whether the row's verdict counts.
        exclusive: the answers of a group exclude each other, unless the rows say that those of their group do not.
    """
    unit = rows.answer
    one = torch.ones_like(prediction)
    size = sum_by_label(one, unit)
    size_of_group = sum_by_label(one, rows.group)
    group = torch.zeros(len(size), dtype=torch.long).index_put((unit,), rows.group)
    answered = sum_by_label(rows.answered, unit) > 0
    lone_response = ~answered & (sum_by_label(rows.lacking, unit) == 0)
    # Beta rate of the verdicts on the rest of the group: one that held the unit's own would explain their errors.
    of_group = by_verdict(rows.group, verdict, judged)[group]
    refused, rewarded = (of_group - by_verdict(unit, verdict, judged) + _RATE_PSEUDO).unbind(1)
    log_share = (size / size_of_group[group]).log()
    log_rate = (rewarded / refused).log()
    features = [
        answered,
        answered * log_share,
        sum_by_label(prediction, unit) / size,
        lone_response,
        lone_response * log_rate,
    ]
    fitted = answered | lone_response
    shared = sum_by_label(~rows.exclusive, unit) > 0
    truth = truth_by_answer(judged & rows.trusted, verdict, unit)
    lacks_answer = ~fitted
    fixed_log_odds = _UNANSWERED_LOG_ODDS * lacks_answer
    if exclusive:
        is_ruled_out = sum_by_label(ruled_out(rows, verdict), unit) > 0
        fixed_log_odds = fixed_log_odds.masked_fill(lacks_answer & is_ruled_out, -_CERTAIN)
    answered_share = float(answered.double().mean())
    return Units(
        of_row=unit,
        group=group,
        counts=by_verdict(unit, verdict, judged & ~rows.trusted),
        known_log_odds=(_CERTAIN * (2 * truth - 1)).masked_fill(truth.isnan(), 0.0),
        features=torch.stack([each.double() for each in features], dim=1),
        fixed_log_odds=fixed_log_odds,
        weight=sum_by_label(rows.weights, unit) / size * fitted,
        exclusive_set=_exclusive_set_numbers(group, answered & ~shared & exclusive, truth),
        shared=shared,
        prior_theta=_PRIOR_THETA,
        least_theta=_LEAST_THETA,
        # Answers identify e and q. Without them only the curvature of the log-odds in z does, and with rates that are
        # too optimistic z would go unused.
        pseudo=(2 + 4 * answered_share, 4 - 2 * answered_share),
    )


def _exclusive_set_numbers(
    group: Int[Tensor, " c"], has_rivals: Bool[Tensor, " c"], truth: Float[Tensor, " c"]
) -> Int[Tensor, " c"]:
    """[C] the number of each unit's set, of which at most one unit is right: those of a group, or the unit alone.

    Trusted rows may show several answers of a group to be right, as spellings that were not told to be equal. The first
    of them rules out the group's others, and each further one stands alone. Three answers of one group that exclude
    each other, of which the second and the third are known to be right, have the numbers 0, 0 and 1.

    Args:
        group: [C] the group of each unit.
        has_rivals: [C] whether at most one of the unit and the others of its group is right.
        truth: [C] by trusted rows, 1 or 0; NaN where they say nothing.
    """
    units = len(group)
    number = torch.arange(units)
    # Beyond the number of every group.
    label_of_its_own = units + number
    label = torch.where(has_rivals, group, label_of_its_own)
    number_if_right = number.masked_fill(truth != 1, units)
    first_right = torch.full((2 * units,), units).scatter_reduce(0, label, number_if_right, "amin")
    is_further = (truth == 1) & (number > first_right[label])
    return torch.where(is_further, label_of_its_own, label).unique(return_inverse=True)[1]


def by_verdict(
    label: Int[Tensor, " n"], verdict: Float[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> Float[Tensor, "m 2"]:
    """[M, 2] how many of the counted rows of each label have verdict 0, and how many 1."""
    refused = sum_by_label(counted * (1 - verdict), label)
    rewarded = sum_by_label(counted * verdict, label)
    return torch.stack([refused, rewarded], dim=1)


def got_both_verdicts(
    label: Int[Tensor, " n"], verdict: Float[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> Bool[Tensor, " n"]:
    """[N] whether the counted rows of the row's label have both verdicts."""
    return (by_verdict(label, verdict, counted) > 0).all(dim=1)[label]
