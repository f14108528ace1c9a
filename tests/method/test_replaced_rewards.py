"""Continuous rewards of which some were replaced: the posterior by hand, and what is found in drawn data."""

import pytest
import torch

from geoalign.lab.analysis.statistics import auroc
from geoalign.method.replaced_rewards import (
    Claims,
    ReplacementModel,
    fit_replacement,
    initial_model,
    replaced_rewards,
)


def claims(rewards, predictions, claim=None, response=None, trusted=None):
    rows = len(rewards)
    claim = torch.arange(rows) if claim is None else torch.tensor(claim)
    return Claims(
        rewards=torch.as_tensor(rewards, dtype=torch.float64),
        predictions=torch.as_tensor(predictions, dtype=torch.float64),
        claim=claim,
        response=torch.arange(int(claim.max()) + 1) if response is None else torch.tensor(response),
        weights=torch.ones(rows, dtype=torch.float64),
        trusted=torch.zeros(rows, dtype=torch.bool) if trusted is None else torch.tensor(trusted),
    )


FLAT = torch.full((32,), 1 / 32, dtype=torch.float64)


def test_without_a_slope_every_reward_is_as_likely_replaced_as_any():
    """h = q and slope 0: nothing tells them apart, so the probability is the share, and E[true] = (1 - share) y."""
    made = replaced_rewards(claims([-1.5, 0.25, 1.0], [2.0, 0.0, -2.0]), ReplacementModel(0.2, 0.0, FLAT, FLAT, FLAT))
    assert made.probability.tolist() == pytest.approx([0.2] * 3)
    assert made.expected.tolist() == pytest.approx([0.8 * -1.5, 0.8 * 0.25, 0.8 * 1.0])


def test_posterior_by_hand():
    """Kept rewards uniform whatever z, replaced ones all in the topmost bin: 1/32 against 1 there."""
    top = torch.zeros(32, dtype=torch.float64)
    top[-1] = 1.0
    replaced = (top + 1e-30).clamp(max=1.0)
    made = replaced_rewards(claims([3.9, 0.0], [0.0, 0.0]), ReplacementModel(0.5, 0.0, FLAT, FLAT, replaced))
    assert made.probability.tolist() == pytest.approx([1 / (1 + 1 / 32), 0.0])


def test_of_different_rewards_of_one_response_at_most_one_is_true():
    # A response given 1.0 twice and -1.0 once, and one given -1.0 once.
    seen = claims([1.0, 1.0, -1.0, -1.0], [1.0, 1.0, 1.0, 1.0], claim=[0, 0, 1, 2], response=[0, 0, 1])
    made = replaced_rewards(seen, ReplacementModel(0.2, 1.0, FLAT, FLAT, FLAT))
    assert made.probability[0] == made.probability[1] < made.probability[2]
    assert (1 - made.probability[0]) + (1 - made.probability[2]) <= 1
    assert made.expected[0] == made.expected[1] == made.expected[2] != made.expected[3]
    assert made.probability[2] > made.probability[3]


def drawn(share, *, extremes=True, seed=0, groups=300, size=8, signal=1.0):
    draw = torch.Generator().manual_seed(seed)
    true = torch.randn(groups, size, generator=draw, dtype=torch.float64)
    z = signal * true + torch.randn(groups, size, generator=draw, dtype=torch.float64)
    wrong = torch.rand(groups, size, generator=draw) < share
    if extremes:
        low, high = true.amin(1, keepdim=True), true.amax(1, keepdim=True)
        other = torch.where(true < true.mean(1, keepdim=True), high, low)
    else:
        other = torch.randn(groups, size, generator=draw, dtype=torch.float64)
    rewards = torch.where(wrong, other, true)
    y = (rewards - rewards.mean(1, keepdim=True)) / rewards.std(1, keepdim=True)
    t = (true - true.mean(1, keepdim=True)) / true.std(1, keepdim=True)
    return claims(y.flatten(), (z / z.square().mean().sqrt()).flatten()), wrong.flatten(), t.flatten()


@pytest.mark.parametrize(("share", "extremes"), [(0.2, True), (0.4, True), (0.2, False)])
def test_replaced_rewards_are_found_and_mended(share, extremes):
    seen, wrong, true = drawn(share, extremes=extremes)
    made = replaced_rewards(seen, fit_replacement(seen, initial_model(seen)))
    by_distance = auroc(seen.rewards.abs().numpy(), wrong.numpy())
    found = auroc(made.probability.numpy(), wrong.numpy())
    # Rewards replaced by others of the same kind can be told by their predictions alone.
    assert found > max(0.75 if extremes else 0.58, by_distance + 0.05)

    def cosine(values):
        return float(values @ true / (values.norm() * true.norm()))

    assert cosine(made.expected) > cosine(seen.rewards) + 0.05
    assert share / 2 < made.probability.mean() < 2 * share


def test_rewards_that_are_all_kept_stay_nearly_as_they_are():
    seen, _, true = drawn(0.0)
    made = replaced_rewards(seen, fit_replacement(seen, initial_model(seen)))
    assert made.probability.mean() < 0.06
    assert float(made.expected @ true / (made.expected.norm() * true.norm())) > 0.95


def test_trusted_rows_stay():
    seen, wrong, _ = drawn(0.3)
    trusting = Claims(**{**vars(seen), "trusted": torch.arange(len(wrong)) % 2 == 0})
    made = replaced_rewards(trusting, fit_replacement(trusting, initial_model(trusting)))
    assert made.probability[::2].eq(0).all()
    assert torch.equal(made.expected[::2], trusting.rewards[::2])
    assert made.variance[::2].eq(0).all()
    assert made.probability[1::2].gt(0).any()


def test_order_of_rows_changes_nothing():
    seen, _, _ = drawn(0.2, groups=40)
    order = torch.randperm(320, generator=torch.Generator().manual_seed(1))
    mixed = claims(seen.rewards[order], seen.predictions[order])
    straight = replaced_rewards(seen, fit_replacement(seen, initial_model(seen)))
    shuffled = replaced_rewards(mixed, fit_replacement(mixed, initial_model(mixed)))
    torch.testing.assert_close(straight.probability[order], shuffled.probability, atol=1e-8, rtol=1e-6)


def test_the_least_share_is_what_surprises_cannot_explain():
    """Half replaced, one kept reward in ten a surprise, kept rewards uniform: 0.05 of the rest follow no prediction.

    Replaced ones all in the topmost bin: kappa = 0.05 by the others, so all of the half is left. Replaced ones uniform
    too: they may all be surprises, and nothing is left.
    """
    top = torch.zeros(32, dtype=torch.float64)
    top[-1] = 1.0
    assert ReplacementModel(0.5, 1.0, FLAT, FLAT, top).least_share == pytest.approx(0.5)
    assert ReplacementModel(0.5, 1.0, FLAT, FLAT, FLAT).least_share == pytest.approx(0, abs=1e-9)


def test_trusted_rows_are_not_counted():
    """A fit is the same with any number of trusted rows beside the others; it is finite where there are no others."""
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(400, generator=draw, dtype=torch.float64)
    y = (z + 0.3 * torch.randn(400, generator=draw, dtype=torch.float64)).clamp(-2, 2)
    trusted = torch.arange(400) >= 300
    every = claims(y, z, trusted=trusted.tolist())
    start = initial_model(claims(y[:300], z[:300]))
    model, expected = fit_replacement(every, start), fit_replacement(claims(y[:300], z[:300]), start)
    assert model.share == pytest.approx(expected.share)
    assert model.slope == pytest.approx(expected.slope)
    alone = fit_replacement(claims(y, z, trusted=[True] * 400), start)
    assert replaced_rewards(claims(y, z, trusted=[True] * 400), alone).expected.isfinite().all()


def test_common_rewards_near_the_mean_are_not_taken_for_replaced():
    """Half of the rows got one reward below the mean whatever their prediction: a spike, but no extreme."""
    draw = torch.Generator().manual_seed(1)
    z = torch.randn(600, generator=draw, dtype=torch.float64)
    y = (0.8 * z + 0.6 * torch.randn(600, generator=draw, dtype=torch.float64)).clamp(-3, 3)
    y[300:] = -0.55
    made = claims(y, z)
    model = fit_replacement(made, initial_model(made))
    assert replaced_rewards(made, model).probability[300:].mean() < 0.8
    ratio = model.replaced / model.kept
    below, above = (ratio[half][model.kept[half] > 0.01] for half in (slice(0, 16), slice(16, 32)))
    assert len(below) > 3
    assert len(above) > 3
    # Up to the pseudo-counts.
    assert (below.diff() < 0.1 * below[1:]).all()
    assert (above.diff() > -0.1 * above[1:]).all()
