"""The model of several verifiers: its likelihood by enumeration, and colluding verifiers that a majority believes."""

import math

import numpy as np
import pytest
import torch
from benchmarks.several_verifiers import colluding
from scipy.stats import kendalltau

from geoalign.errors import InputError
from geoalign.noise.several_verifiers import VerdictUnits, _Model, verifier_modes


def true_rates(units, right):
    """(false positive rate, false negative rate) of each verifier, where `right` says which units are right."""
    verdicts = units.verdicts.numpy()
    copies = units.copies.numpy()
    positives = np.average(verdicts[~right], axis=0, weights=copies[~right])
    negatives = np.average(1 - verdicts[right], axis=0, weights=copies[right])
    return positives, negatives


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_colluding_verifiers_are_seen_through(seed):
    world = colluding(seed)
    units, right = world.units, world.right
    best = verifier_modes(units)[0]
    positives, negatives = true_rates(units, right)
    truth = 1 - (positives + negatives) / 2
    by_majority = true_rates(units, units.verdicts.mean(dim=1).numpy() > 0.5)
    assert kendalltau(truth, 1 - sum(by_majority) / 2).statistic < 0
    assert kendalltau(truth, best.balanced_accuracies).statistic >= 0.8
    assert np.abs(best.false_positive_rates.numpy() - positives).mean() < 0.03
    assert np.abs(best.false_negative_rates.numpy() - negatives).mean() < 0.03


def test_the_likelihood_is_that_of_the_model_enumerated():
    nan = math.nan
    verdicts = [[1, 0, 1, nan], [0, 0, 1, 1], [1, 1, 1, 0]]
    copies = [3, 1, 2]
    sizes = [4, 4, 5]
    units = VerdictUnits(
        verdicts=torch.tensor(verdicts, dtype=torch.float64),
        prompts=torch.tensor([0, 0, 1]),
        copies=torch.tensor(copies),
        sizes=torch.tensor(sizes),
    )
    model = _Model(units)
    rng = np.random.default_rng(0)
    # Of four verifiers and two kinds of answers (0 wrong, 1 right) the intercepts a and the slopes b; and the three of
    # the odds that an answer is right.
    parameters = rng.normal(size=4 * 4 + 3)
    a = parameters[:8].reshape(2, 4)
    b = parameters[8:16].reshape(2, 4)
    c = parameters[16:]
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)

    def likelihood(unit, kind):
        """Of the verdicts that are there; z is what makes all verifiers lenient at once, and is summed over."""
        total = 0.0
        for z, weight in zip(nodes, weights / weights.sum(), strict=True):
            chance = 1.0
            for verifier, verdict in enumerate(verdicts[unit]):
                if math.isnan(verdict):
                    continue
                logit = a[kind, verifier] + b[kind, verifier] * z
                accepting = 1 / (1 + math.exp(-logit))
                chance *= accepting if verdict else 1 - accepting
            total += weight * chance
        return total

    def odds_of_right(unit, answers):
        log_share = math.log(copies[unit] / sizes[unit])
        return math.exp(c[0] + c[1] * log_share + c[2] * math.log(answers))

    log_likelihood = 0.0
    for members in ([0, 1], [2]):
        odds = {unit: odds_of_right(unit, answers=len(members)) for unit in members}
        # None of a prompt's answers is right, or one of them.
        total = 0.0
        for right in (None, *members):
            prior = 1.0 if right is None else odds[right]
            total += prior * math.prod(likelihood(unit, int(unit == right)) for unit in members)
        log_likelihood += math.log(total / (1 + sum(odds.values())))
    prior_deviations = np.repeat([3.0, 1.0, 3.0], [8, 8, 3])
    log_prior = -((parameters / prior_deviations) ** 2).sum() / 2
    log_posterior = model._log_posterior(torch.from_numpy(parameters))
    assert log_posterior.item() == pytest.approx(log_likelihood + log_prior)


def test_three_verifiers_are_refused():
    units = colluding(0, prompts=5).units
    three = VerdictUnits(units.verdicts[:, :3], units.prompts, units.copies, units.sizes)
    with pytest.raises(InputError, match="at least 4 verifiers, got 3"):
        verifier_modes(three)
