"""Binary rewards as noisy verdicts: the posterior by hand, the fitted rates on drawn data, and what must not matter."""

import math
from dataclasses import replace

import pytest
import torch

from geoalign.method.verdicts import (
    Clusters,
    VerdictModel,
    Verdicts,
    cluster_probabilities,
    fit_verdicts,
    row_probabilities,
    verdict_evidence,
)

PRIOR = torch.zeros(1, dtype=torch.float64)
MODEL = VerdictModel(0.8, 0.1, PRIOR, PRIOR, torch.tensor([True]), (16.0, 4.0))


def constant(member, rivals):
    count = len(rivals)
    return Clusters(
        torch.tensor(member),
        torch.tensor(rivals),
        torch.ones(count, 1, dtype=torch.float64),
        torch.ones(count, dtype=torch.float64),
    )


def flags(values):
    return torch.tensor(values, dtype=torch.bool)


def test_evidence_by_hand():
    verdicts = Verdicts(right=flags([1, 0, 1, 0]), scored=flags([1, 1, 0, 1]), trusted=flags([0, 0, 0, 1]))
    evidence = verdict_evidence(verdicts, MODEL)
    # log(.8 / .1), log(.2 / .9), no verdict, and a trusted one: log(1e-6 / (1 - 1e-6)).
    expected = [math.log(8), math.log(2 / 9), 0.0, -math.log(1e6)]
    assert evidence.tolist() == pytest.approx(expected, abs=1e-5)


def test_posterior_by_hand():
    # Two rival clusters of two rows, verdicts (1, 0) and (0, 0); log-odds 0 for each and for none.
    clusters = constant([0, 0, 1, 1], [0, 0])
    evidence = clusters.total(verdict_evidence(Verdicts(flags([1, 0, 0, 0]), flags([1] * 4), flags([0] * 4)), MODEL))
    first, second = 8 * (2 / 9), (2 / 9) ** 2
    total = 1 + first + second
    assert cluster_probabilities(clusters, PRIOR, evidence).tolist() == pytest.approx([first / total, second / total])
    # By itself, each is weighed against its own being wrong.
    alone = replace(clusters, rivals=torch.tensor([0, 1]))
    assert cluster_probabilities(alone, PRIOR, evidence).tolist() == pytest.approx(
        [first / (1 + first), second / (1 + second)]
    )


def drawn(seed, groups=400, size=8, answers=4, true_positive=0.7, false_positive=0.3):
    """Groups in which the right answer is one of `answers`, with share as it falls; one group in five has none."""
    draw = torch.Generator().manual_seed(seed)
    answer = torch.randint(answers, (groups, size), generator=draw)
    truth = (answer == 0) & (torch.rand(groups, 1, generator=draw) > 0.2)
    verdict = torch.rand(groups, size, generator=draw) < torch.where(truth, true_positive, false_positive)
    member = (torch.arange(groups)[:, None] * answers + answer).flatten()
    used, member = member.unique(return_inverse=True)
    count = len(used)
    share = torch.bincount(member).double() / size
    features = torch.stack([torch.ones(count, dtype=torch.float64), share.log()], dim=1)
    clusters = Clusters(member, used // answers, features, torch.ones(count, dtype=torch.float64))
    return clusters, verdict.flatten(), truth.flatten()


START = VerdictModel(
    0.8,
    0.2,
    torch.tensor([0.0, 1.0]).double(),
    torch.tensor([0.0, 1.0]).double(),
    torch.tensor([True, True]),
    (16.0, 4.0),
)


def fitted(clusters, right, trusted=None):
    scored = torch.ones(len(right), dtype=torch.bool)
    verdicts = Verdicts(right, scored, ~scored if trusted is None else trusted)
    model = fit_verdicts(clusters, verdicts, START, rounds=60)
    return model, row_probabilities(clusters, verdicts, model)


def test_the_flip_rates_are_found():
    model, _ = fitted(*drawn(0)[:2])
    assert model.true_positive == pytest.approx(0.7, abs=0.05)
    assert model.false_positive == pytest.approx(0.3, abs=0.03)
    assert model.informedness == pytest.approx(0.4, abs=0.06)


def test_the_posterior_is_calibrated():
    clusters, right, truth = drawn(1)
    _, probability = fitted(clusters, right)
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.7), (0.7, 1.0)):
        inside = (probability >= low) & (probability <= high)
        assert inside.sum() > 50
        assert truth[inside].double().mean() == pytest.approx(probability[inside].mean().item(), abs=0.08)


def test_trusted_rows_carry_their_answer():
    clusters, right, truth = drawn(2)
    trusted = torch.rand(len(right), generator=torch.Generator().manual_seed(0)) < 0.2
    right = torch.where(trusted, truth, right)
    _, without = fitted(clusters, right)
    _, probability = fitted(clusters, right, trusted)
    assert ((probability > 0.5) == truth)[trusted].all()
    rest = ~trusted
    assert ((probability > 0.5) == truth)[rest].double().mean() > ((without > 0.5) == truth)[rest].double().mean()


def test_row_order_changes_nothing():
    clusters, right, _ = drawn(3, groups=50)
    order = torch.randperm(len(right), generator=torch.Generator().manual_seed(0))
    _, straight = fitted(clusters, right)
    _, mixed = fitted(replace(clusters, member=clusters.member[order]), right[order])
    torch.testing.assert_close(straight[order], mixed)


def test_fixed_entries_stay_and_rates_stay_ordered():
    clusters, right, _ = drawn(4, groups=50)
    scored, none = torch.ones(len(right), dtype=torch.bool), torch.zeros(len(right), dtype=torch.bool)
    start = replace(START, free=torch.tensor([True, False]))
    model = fit_verdicts(clusters, Verdicts(right, scored, none), start)
    assert model.theta[1] == 1.0 != model.theta[0]
    noise = torch.rand(len(right), generator=torch.Generator().manual_seed(0)) < 0.5
    model = fit_verdicts(clusters, Verdicts(noise, scored, none), START, rounds=100)
    assert 0.001 <= model.false_positive < model.true_positive <= 0.999
