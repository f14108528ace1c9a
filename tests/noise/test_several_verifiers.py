"""The model of several verifiers: its likelihood by enumeration, and colluding verifiers that a majority believes."""

import itertools
import math

import numpy as np
import pytest
import torch
from benchmarks.several_verifiers import colluding
from scipy.stats import kendalltau

from geoalign.errors import InputError
from geoalign.noise.several_verifiers import VerdictUnits, _Model, verifier_modes


def true_rates(units, right):
    copies, verdicts = units.copies.numpy()[:, None], units.verdicts.numpy()
    wrong = ~right[:, None]
    positives = (copies * verdicts * wrong).sum(0) / (copies * wrong).sum(0)
    negatives = (copies * (1 - verdicts) * ~wrong).sum(0) / (copies * ~wrong).sum(0)
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
    units = VerdictUnits(
        verdicts=torch.tensor([[1, 0, 1, math.nan], [0, 0, 1, 1], [1, 1, 1, 0]], dtype=torch.float64),
        prompts=torch.tensor([0, 0, 1]),
        copies=torch.tensor([3, 1, 2]),
        sizes=torch.tensor([4, 4, 5]),
    )
    model = _Model(units)
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=4 * 4 + 3)
    a, b, c = parameters[:8].reshape(2, 4), parameters[8:16].reshape(2, 4), parameters[16:]
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)

    def likelihood(unit, kind):
        total = 0.0
        for z, weight in zip(nodes, weights / weights.sum(), strict=True):
            chance = 1.0
            for verifier in range(4):
                verdict = units.verdicts[unit, verifier].item()
                if not math.isnan(verdict):
                    accepting = 1 / (1 + math.exp(-(a[kind, verifier] + b[kind, verifier] * z)))
                    chance *= accepting if verdict else 1 - accepting
            total += weight * chance
        return total

    log_likelihood = 0.0
    for members in ([0, 1], [2]):
        sizes = [4, 4, 5]
        odds = {}
        for unit in members:
            share = units.copies[unit].item() / sizes[unit]
            odds[unit] = math.exp(c[0] + c[1] * math.log(share) + c[2] * math.log(len(members)))
        total = 0.0
        for truth in itertools.product((0, 1), repeat=len(members)):
            if sum(truth) <= 1:
                prior = math.prod(odds[unit] for unit, kind in zip(members, truth, strict=True) if kind)
                total += prior * math.prod(likelihood(unit, kind) for unit, kind in zip(members, truth, strict=True))
        log_likelihood += math.log(total / (1 + sum(odds.values())))
    prior = -((parameters / np.repeat([3.0, 1.0, 3.0], [8, 8, 3])) ** 2).sum() / 2
    assert model._log_posterior(torch.from_numpy(parameters)).item() == pytest.approx(log_likelihood + prior)


def test_three_verifiers_are_refused():
    units = colluding(0, prompts=5).units
    three = VerdictUnits(units.verdicts[:, :3], units.prompts, units.copies, units.sizes)
    with pytest.raises(InputError, match="at least 4 verifiers, got 3"):
        verifier_modes(three)
