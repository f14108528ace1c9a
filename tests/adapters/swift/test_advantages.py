"""ms-swift's advantages with rows left out, by hand; against its own code in test_training.py."""

import pytest
import torch

from geoalign.adapters.swift.advantages import swift_advantages

NAN = float("nan")
# Group 0: 1, 3 (and one without a reward); group 1: 0, 0, 6.
REWARDS = torch.tensor([1.0, NAN, 3.0, 0.0, 0.0, 6.0])
GROUPS = torch.tensor([0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("estimator", "scale", "expected"),
    [
        ("grpo", "none", [-1, 0, 1, -2, -2, 4]),
        # Deviations sqrt(2) and sqrt(12), one degree of freedom less than rewards.
        ("grpo", "group", [-0.7071, 0, 0.7071, -0.5773, -0.5773, 1.1547]),
        # Of 1, 3, 0, 0, 6 around 2: (1 + 1 + 4 + 4 + 16) / 4 = 6.5, sqrt 2.5495.
        ("grpo", "batch", [-0.3922, 0, 0.3922, -0.7845, -0.7845, 1.5689]),
        # k / (k - 1): 2 of group 0's two, 1.5 of group 1's three.
        ("rloo", "none", [-2, 0, 2, -3, -3, 6]),
        # Of the advantages -1, 1, -2, -2, 4 around 0: 26 / 4 = 6.5.
        ("reinforce_plus_plus", "batch", [-0.3922, 0, 0.3922, -0.7845, -0.7845, 1.5689]),
    ],
)
def test_by_hand(estimator, scale, expected):
    got = swift_advantages(REWARDS, GROUPS, estimator=estimator, scale_rewards=scale)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float32), atol=2e-4, rtol=0)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_without_any_reward(scale):
    got = swift_advantages(torch.full((3,), NAN), torch.tensor([0, 0, 1]), estimator="rloo", scale_rewards=scale)
    assert torch.equal(got, torch.zeros(3))
