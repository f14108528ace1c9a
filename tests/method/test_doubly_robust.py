"""Doubly robust rewards: by hand, and that what the prediction misses counts as much as what it knows."""

from dataclasses import replace

import pytest
import torch

from geoalign.method.doubly_robust import robust_rewards, robust_truth
from geoalign.method.replaced_rewards import Claims, Replaced, fit_replacement, initial_model, replaced_rewards


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def claims(rewards, predictions, response=None):
    rows = len(rewards)
    return Claims(
        rewards=rewards,
        predictions=predictions,
        claim=torch.arange(rows),
        response=torch.arange(rows) if response is None else torch.tensor(response),
        weights=torch.ones(rows, dtype=torch.float64),
        trusted=torch.zeros(rows, dtype=torch.bool),
    )


def judged(rewards, probability, predicted):
    """As `replaced_rewards` says of rows that stand alone: m + (1 - probability) (y - m)."""
    expected = predicted + (1 - probability) * (rewards - predicted)
    return Replaced(probability, expected, torch.zeros_like(rewards), predicted)


def test_by_hand():
    """Kept with 1 and 1/2, surprises 1 and -2: r = 3/4 (1 + 1/4 4) / (1 + 1/2 4) = 1/2, so 1 and -1 become 2 and -2."""
    rewards, predicted = numbers(1.5, -1.0), numbers(0.5, 1.0)
    estimate, recovered = robust_rewards(claims(rewards, predicted), judged(rewards, numbers(0.0, 0.5), predicted))
    assert recovered == pytest.approx(1 / 2)
    assert estimate.tolist() == pytest.approx([0.5 + 2, 1.0 - 2])


def test_where_every_reward_is_believed_nothing_changes():
    rewards = numbers(1.5, -1.0, 0.0)
    estimate, recovered = robust_rewards(
        claims(rewards, torch.zeros(3)), judged(rewards, torch.zeros(3, dtype=torch.float64), numbers(0.2, 0.1, 0.0))
    )
    assert recovered == 1.0
    assert torch.allclose(estimate, rewards)


def test_rows_whose_expectation_is_no_such_sum_keep_it():
    """A trusted row, one response with two rewards, and a row of a group of equal rewards; then nothing is left."""
    rewards, predicted = numbers(1.5, 1.0, -1.0, 0.0), torch.zeros(4, dtype=torch.float64)
    seen = claims(rewards, predicted, response=[0, 1, 1, 2])
    seen = replace(seen, trusted=torch.tensor([True, False, False, False]), weights=numbers(1, 1, 1, 0))
    said = judged(rewards, numbers(0.0, 0.4, 0.7, 0.5), predicted)
    estimate, recovered = robust_rewards(seen, said)
    assert recovered == 1.0
    assert torch.equal(estimate, said.expected)


def test_the_factor_is_bounded_where_hardly_a_reward_is_believed():
    rewards, predicted = numbers(2.0, -2.0), torch.zeros(2, dtype=torch.float64)
    estimate, recovered = robust_rewards(claims(rewards, predicted), judged(rewards, numbers(0.99, 0.99), predicted))
    assert recovered == 0.1
    assert estimate.tolist() == pytest.approx([0.2, -0.2])


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_a_part_of_the_truth_that_the_prediction_misses_weighs_as_much_as_the_other(share):
    """Truth = known + missed + noise. Regressed on the first two, the estimates weigh them equally; E[t] does not."""
    draw = torch.Generator().manual_seed(0)
    known, missed, noise = torch.randn(3, 6000, generator=draw, dtype=torch.float64)
    true = (known + missed + 0.5 * noise) / 1.5
    extreme = 1.4 + 0.3 * torch.rand(6000, generator=draw, dtype=torch.float64)
    sign = torch.randn(6000, generator=draw).sign().double()
    rewards = torch.where(torch.rand(6000, generator=draw) < share, extreme * sign, true)
    seen = claims(rewards, known)
    said = replaced_rewards(seen, fit_replacement(seen, initial_model(seen)))

    def missed_over_known(estimate):
        parts = torch.linalg.lstsq(torch.stack([known, missed], dim=1), estimate[:, None]).solution[:, 0]
        return float(parts[1] / parts[0])

    assert missed_over_known(said.expected) < 0.8
    assert missed_over_known(robust_rewards(seen, said)[0]) == pytest.approx(1.0, abs=0.15)


def test_verdicts_by_hand():
    """r = (0.4^2 + 0.3^2) / (0.25 + 0.9 0.1 + 0.2 0.8) = 0.5; the third row has no weight."""
    estimate, recovered = robust_truth(numbers(0.9, 0.2, 1.0), numbers(0.5, 0.5, 0.5), numbers(1, 1, 0))
    assert recovered == pytest.approx(0.5)
    assert estimate.tolist() == pytest.approx([0.5 + 0.4 / 0.5, 0.5 - 0.3 / 0.5, 1.0])
    assert robust_truth(numbers(0.6, 0.4), numbers(0.5, 0.5), numbers(1, 1))[1] == 0.3


def test_verdicts_that_are_certain_or_say_nothing_are_left():
    certain = numbers(1.0, 0.0)
    assert torch.allclose(robust_truth(certain, numbers(0.3, 0.3), numbers(1, 1))[0], certain)
    same = numbers(0.3, 0.3)
    assert torch.equal(robust_truth(same, same, numbers(1, 1))[0], same)
