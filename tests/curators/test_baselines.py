"""The baselines without a file of their own: values that their own source lines give, on three groups of rewards."""

import math

import pytest
import torch
from worked_groups import EQ, RB, RC, close, group

from geoalign import Rollouts, group_advantages
from geoalign.curators.baselines.advantages import GRPO, MCGRPO, SGRPO, QuantileBaseline
from geoalign.curators.baselines.subsets import CPPO, GFPO, DAPOFilterOnly
from geoalign.errors import ConfigError, InputError


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        (RB, [-0.724567, 1.207612, 1.207612, -0.724567, 1.207612, -0.724567, -0.724567, -0.724567]),
        (RC, [-1.336146, 1.422348, 0.043101, -0.646522, 0.732725, -0.991334, 1.077537, -0.301710]),
        (EQ, [0.0] * 8),
        ([0.0, 1], [-0.707106, 0.707106]),
        ([1.0, 1, 1, 0], [0.499999] * 3 + [-1.499997]),
    ],
)
def test_grpo(rewards, expected):
    rollouts = group(rewards)
    curation = GRPO().curate(rollouts)
    close(group_advantages(curation.rewards, rollouts.groups[curation.source], weights=curation.weights), expected)


def test_s_grpo():
    expected = [0.0, 0.420883, 0.72111, 0.784857, 0.8, 0.784857, 0.72111, 0.420883, 0.0]
    for k, weight in enumerate(expected):
        close(SGRPO(flip_rate=0.1).curate(group([1.0] * k + [0.0] * (8 - k))).weights, [weight] * 8, atol=1e-5)
    with pytest.raises(ConfigError, match=r"less than 0\.5"):
        SGRPO(flip_rate=0.5)


def test_s_grpo_leaves_unscored_rewards_out_of_the_rate():
    # 1 of 2 scored rewards is 1: t = (0.5 - 0.1) / 0.8 = 0.5; 0.8 * 0.25 / (0.5 * 0.5) = 0.8.
    weights = SGRPO().curate(group([0.0, 1.0, math.nan])).weights
    close(weights, [0.8, 0.8, 0.0], atol=1e-5)


def test_dapo_filters_and_samples_nothing():
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0, 1, 1, 0, 1, math.nan, 1]), groups=torch.tensor([0, 1, 0, 1, 2, 3, 3, 4])
    )
    # Group 0: equal; 1: different; 2, 4: one row; 3: one reward.
    curation = DAPOFilterOnly().curate(rollouts)
    assert sorted(curation.source.tolist()) == [1, 3]
    assert curation.metrics["groups_left_out"] == 4
    assert len(DAPOFilterOnly().curate(group(EQ)).source) == 0


def test_cppo():
    for rewards, kept in ((RB, {1, 2, 4}), (RC, {0, 1, 5, 6})):
        rollouts = group(rewards)
        advantages = group_advantages(rollouts.rewards, rollouts.groups)
        curation = CPPO().curate(group(rewards, advantages=advantages))
        assert len(curation.source) == 4
        assert set(curation.source.tolist()) >= kept
        # The advantages are those of the whole group, not of the kept rows.
        assert torch.equal(curation.advantages, advantages[curation.source])
    assert len(CPPO(pruning_rate=0.9).curate(group(RC, advantages=torch.ones(8))).source) == 1
    assert len(CPPO(pruning_rate=0.0).curate(group(RC, advantages=torch.ones(8))).source) == 8
    with pytest.raises(InputError, match="finite advantages, got nan in row 0"):
        CPPO().curate(group(RC, advantages=torch.full((8,), math.nan)))


def test_gfpo():
    lengths = torch.tensor([5, 9, 2, 2, 7, 1, 8, 40])
    assert GFPO(k=3).curate(group(RC, lengths=lengths)).source.tolist() == [5, 3, 2]
    # Rewards per token: .02, .1, .25, .15, .1, .2, .1, .01
    assert GFPO(k=3, by="token_efficiency").curate(group(RC, lengths=lengths)).source.tolist() == [2, 5, 3]
    assert len(GFPO().curate(group(RC, lengths=lengths)).source) == 4
    with pytest.raises(InputError, match="k of at most the 8 rollouts of a group, got k = 9 in group 17"):
        GFPO(k=9).curate(group(RC, lengths=lengths))
    with pytest.raises(InputError, match="lengths of at least 1 token, got 0 in row 0"):
        GFPO().curate(group(RC, lengths=lengths - 5))


def test_mc_grpo():
    # Median 0.45; distances .35 .45 .05 .15 .25 .25 .35 .05, their median 0.25: (r - 0.45) / 0.251.
    curation = MCGRPO().curate(group(RC))
    close(curation.advantages, [(r - 0.45) / 0.251 for r in RC], atol=1e-5)
    # Five rewards: the third is the median and leaves; distances 3 1 0 1 7, their median 1.
    odd = MCGRPO().curate(group([0.0, 2, 3, 4, 10]))
    assert odd.source.tolist() == [0, 1, 3, 4]
    close(odd.advantages, [-3 / 1.001, -1 / 1.001, 1 / 1.001, 7 / 1.001])
    whole = MCGRPO(drop_median=False).curate(group([0.0, 2, 3, 4, 10]))
    close(whole.advantages, [-3 / 1.001, -1 / 1.001, 0.0, 1 / 1.001, 7 / 1.001])


def test_mc_grpo_where_the_deviation_is_zero():
    # Median 0, MAD 0; the standard deviation of three ones in eight is 0.517549.
    curation = MCGRPO().curate(group(RB))
    close(curation.advantages, [r / 0.518549 for r in RB], atol=1e-5)
    assert curation.metrics["zero_mad_groups"] == 1
    close(MCGRPO(zero_mad="eps").curate(group(RB)).advantages, [1000 * r for r in RB], atol=1e-2)
    close(MCGRPO().curate(group(EQ)).advantages, [0.0] * 8)


def test_quantile_baseline():
    # The 4th of 8 ascending rewards (ceil 3.2) is 0.4; standard deviation 0.290012 of 0.1 .. 0.9 without 0.6.
    close(QuantileBaseline().curate(group(RC)).advantages, [(r - 0.4) / 0.290013 for r in RC], atol=1e-5)
    # Success rate 3/8 <= 1 - 0.4: baseline 0, only successes count; rate 5/8: baseline 1, only failures.
    close(QuantileBaseline(scale="none").curate(group(RB)).advantages, RB)
    close(QuantileBaseline(scale="none").curate(group([1 - r for r in RB])).advantages, [-r for r in RB])
    # 0.4 * 5 is rank 2 exactly.
    close(QuantileBaseline(scale="none").curate(group([1.0, 2, 3, 4, 5])).advantages, [-1.0, 0, 1, 2, 3])
