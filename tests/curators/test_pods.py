"""PODS: values that its own source gives, on three groups of eight rewards."""

import math

import pytest
import torch
from worked_groups import EQ, RB, RC, close, generator, group

from geoalign import group_advantages
from geoalign.curators.baselines.subsets import PODS
from geoalign.errors import ConfigError, InputError


@pytest.mark.parametrize(
    ("rewards", "m", "kept", "variance"),
    [
        (RB, 2, [1, 7], 0.5),
        (RB, 3, [1, 6, 7], 0.3333),
        (RB, 4, [1, 2, 6, 7], 0.3333),
        (RB, 5, [1, 2, 4, 0, 3], 0.3),
        (RB, 6, [1, 2, 4, 0, 3, 5], 0.3),
        (RC, 2, [1, 0], 0.32),
        (RC, 3, [1, 6, 0], 0.19),
        (RC, 4, [1, 6, 5, 0], 0.166667),
        (RC, 5, [1, 6, 3, 5, 0], 0.133),
        (RC, 6, [1, 6, 4, 3, 5, 0], 0.116),
        (EQ, 4, [0, 1, 2, 3], 0.0),
        ([0.0] * 7 + [1], 4, [7, 0, 1, 2], 0.25),
    ],
)
def test_pods(rewards, m, kept, variance):
    curation = PODS(m=m).curate(group(rewards))
    assert curation.source.tolist() == kept
    assert curation.rewards.var().item() == pytest.approx(variance, abs=5e-5)


def test_pods_advantages_are_those_of_the_subset():
    curation = PODS(m=4).curate(group([0.0] * 7 + [1]))
    # Mean 1/4, deviation 1/2: (3/4) / (1/2 + 1e-4) = 1.4997.
    close(
        group_advantages(curation.rewards, torch.zeros(4, dtype=torch.long), eps=1e-4), [1.4997] + [-0.4999] * 3, 5e-5
    )
    equal = PODS(m=4).curate(group(EQ))
    close(group_advantages(equal.rewards, torch.zeros(4, dtype=torch.long)), [0.0] * 4)


def test_pods_default_is_half_the_group():
    assert len(PODS().curate(group(RC)).source) == 4
    assert PODS().curate(group([0.0, 1, 2])).source.tolist() == [2, 0]
    assert PODS().curate(group([0.0, 1])).source.tolist() == [0, 1]
    assert PODS().curate(group([1.0])).source.tolist() == [0]


def test_pods_finds_the_largest_variance_of_all_subsets():
    """Against every subset, one by one."""
    draw = generator(4)
    for n, m in ((7, 3), (8, 4), (6, 5), (9, 2)):
        rewards = torch.randn(n, generator=draw)
        best = max(rewards[list(some)].var() for some in torch.combinations(torch.arange(n), m).tolist())
        found = PODS(m=m).curate(group(rewards.tolist())).rewards.var()
        assert found.item() == pytest.approx(best.item(), abs=1e-6)


def test_pods_bounds():
    assert PODS(m=8).curate(group(RC)).source.tolist() == list(range(8))
    with pytest.raises(InputError, match="m of at most the 8 rollouts of a group, got m = 9 in group 17"):
        PODS(m=9).curate(group(RC))
    with pytest.raises(ConfigError, match="greater than or equal to 2"):
        PODS(m=1)


def test_pods_leaves_out_rows_without_a_reward():
    rewards = [math.nan, 0.0, 1.0, math.nan, 2.0]
    curation = PODS(m=4).curate(group(rewards))
    assert sorted(curation.source.tolist()) == [1, 2, 4]
    assert curation.metrics["groups_short_of_rewards"] == 1
    assert curation.metrics["unscored_rewards"] == 2
