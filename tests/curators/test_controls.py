import math
from dataclasses import replace

import torch
from scipy.stats import chi2
from worked_groups import generator

from geoalign import GeoAlign, GeoAlignConfig, Rollouts
from geoalign.curators.baselines.controls import (
    Oracle,
    PairCount,
    Random,
    RankTrim,
    RewardDistance,
    TieDetector,
    tied_extremes,
)
from geoalign.testing.synthetic import synthetic_rollouts

GEOALIGN = GeoAlignConfig(min_scores=8, alpha=0.3, projector={"hidden_dim": 16, "output_dim": 8, "steps": 10})


# The ids of 20 groups of four rows, which the worked batches begin with.
TWENTY_GROUPS = torch.arange(20).repeat_interleave(4)


def minority():
    """20 groups of two ones and two zeros, and one group with a single one among eight rows (row 80)."""
    balanced = torch.tensor([1.0, 1, 0, 0]).repeat(20)
    single_one = torch.tensor([1.0] + [0.0] * 7)
    return Rollouts(
        rewards=torch.cat([balanced, single_one]),
        groups=torch.cat([TWENTY_GROUPS, torch.full((8,), 20)]),
    )


def test_pair_counts():
    # Every row of a group of two and two is in 2 pairs; the single one is in 7, each of its seven losers in 1.
    curation = PairCount().curate(minority(), generator=generator())
    assert curation.scores.tolist() == [2.0] * 80 + [7.0] + [1.0] * 7
    assert curation.anomalous.nonzero()[:, 0].tolist() == [80]
    assert curation.metrics["pairs"] == 20 * 4 + 7
    # It is replaced by a row of its own group, all of which have reward 0.
    assert 81 <= int(curation.source[80]) <= 87
    assert curation.metrics["replaced"] == 1


def test_reward_distances():
    # 20 groups of rewards 0, 1, 2, 3 (distances 1.5, .5, .5, 1.5) and one of 0, 0, 0, 40 (10, 10, 10, 30): the tail.
    usual = torch.tensor([0.0, 1, 2, 3]).repeat(20)
    far = torch.tensor([0.0, 0, 0, 40])
    unscored = torch.tensor([5, 5, math.nan])
    rollouts = Rollouts(
        rewards=torch.cat([usual, far, unscored]),
        groups=torch.cat([TWENTY_GROUPS, torch.tensor([20] * 4 + [21] * 2 + [22])]),
    )
    curation = RewardDistance(max_fraction=0.02).curate(rollouts, generator=generator())
    assert curation.scores[:4].tolist() == [1.5, 0.5, 0.5, 1.5]
    assert curation.scores[80:84].tolist() == [10, 10, 10, 30]
    assert curation.scores[84:].isnan().all()  # equal rewards, and one that could not be scored
    assert curation.anomalous.nonzero()[:, 0].tolist() == [83]
    assert curation.metrics["scored_groups"] == 21


def test_pair_count_settings_are_geoaligns():
    rollouts = minority()
    assert not PairCount(min_scores=89).curate(rollouts).anomalous.any()
    assert PairCount(min_scores=88).curate(rollouts).anomalous.any()
    # 1% of 88 scored rows is none.
    assert not PairCount(max_fraction=0.01).curate(rollouts).anomalous.any()
    # Two of 88 points lie within the tail's kernel: one in 88 is below 0.05 of the peak, but not below 0.001 of it.
    assert not PairCount(alpha=0.001).curate(rollouts).anomalous.any()
    assert PairCount(strategy="zero_weight").curate(rollouts).weights[80] == 0
    assert 80 not in PairCount(strategy="drop").curate(rollouts).source.tolist()
    assert PairCount(strategy="amplify").curate(rollouts, generator=generator()).source.tolist().count(80) == 2
    for name in ("alpha", "max_fraction", "min_scores", "strategy"):
        assert getattr(PairCount().config, name) == getattr(GeoAlignConfig(), name)


def batches(count=3):
    return [synthetic_rollouts(24, 6, 16, seed=seed).rollouts for seed in range(count)]


def test_random_flags_as_many_as_geoalign_does_in_that_step():
    """Both see the same batches in the same order; the GeoAlign inside keeps its projector."""
    alone, control = GeoAlign(GEOALIGN), Random(geoalign=GEOALIGN)
    for step, rollouts in enumerate(batches()):
        asked = alone.curate(rollouts, generator=generator(step))
        # The control's generator serves the GeoAlign inside first, so that both train on the same draws.
        drawn = control.curate(rollouts, generator=generator(step))
        assert drawn.anomalous.sum() == asked.anomalous.sum() > 1
        assert drawn.metrics["geoalign_replaced"] == asked.metrics["replaced"]
        assert not torch.equal(drawn.anomalous, asked.anomalous)
        assert torch.equal(drawn.scores.isnan(), asked.scores.isnan())
        assert torch.equal(drawn.replaced, drawn.anomalous)


def test_random_draws_uniformly_from_the_scored_rows():
    rollouts = batches(1)[0]
    rewards = rollouts.rewards.clone()
    rewards[:6] = 1.0  # the first group has no pair: its rows are unscored
    rollouts = replace(rollouts, rewards=rewards)
    draw = generator()
    calls = 30
    flagged = torch.zeros(len(rollouts))
    for _ in range(calls):
        curator = Random(geoalign=replace(GEOALIGN, projector=None))
        flagged += curator.curate(rollouts, generator=draw).anomalous
    assert flagged[:6].sum() == 0
    # A row's count is binomial with variance n p (1 - p), so the squared deviations over it add up to 137 (p-values of
    # .1% on either side). A draw that prefers some rows, or gives each its turn, lies outside.
    share = flagged.sum() / calls / 138
    variance = calls * share * (1 - share)
    spread = (flagged[6:] - calls * share).square().sum() / variance
    low, high = chi2.ppf([0.001, 0.999], 137)
    assert low < float(spread) * 137 / 138 < high


def corrupted():
    """Rows 1, 4 (up) and 3 (down) are corrupted; group 2 wholly; rows 8 and 9 lack a reward or its true value."""
    true = torch.tensor([0.0, 0, 1, 1, 0, 1, 0, 1, 1, math.nan])
    rewards = torch.tensor([0.0, 1, 1, 0, 1, 1, 1, 0, math.nan, 1])
    groups = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 1, 1])
    return Rollouts(rewards=rewards, groups=groups, true_rewards=true)


def test_oracle_replaces_exactly_the_corrupted_rows():
    for seed in range(5):
        curation = Oracle().curate(corrupted(), generator=generator(seed))
        assert curation.anomalous.nonzero()[:, 0].tolist() == [1, 3, 4, 6, 7]
        # Group 2 has no true reward left; donors are the true rows of the row's own group.
        assert curation.replaced.nonzero()[:, 0].tolist() == [1, 3, 4]
        assert set(curation.source[[1, 3]].tolist()) <= {0, 2}
        assert curation.source[4] == 5
        assert curation.metrics["groups_without_donor"] == 1
        assert curation.scores.nan_to_num(-1).tolist() == [0, 1, 0, 1, 1, 0, 1, 1, -1, -1]
        assert curation.weights.tolist() == [1] * 8 + [0, 1]


def test_oracle_compares_rewards_of_two_types_as_the_narrower_one():
    """0.1 in float64 and in float32 are two numbers, and no reward is wrong by their difference."""
    rewards = torch.tensor([0.1, 0.9, 0.3, 0.7], dtype=torch.float64)
    batch = Rollouts(rewards=rewards, groups=torch.zeros(4, dtype=torch.long), true_rewards=rewards.float())
    assert not Oracle().curate(batch, generator=generator()).anomalous.any()


def rollouts(*groups, keys=None):
    """The rewards of each group, and the key of each response."""
    rewards = torch.tensor([reward for group in groups for reward in group])
    ids = torch.tensor([name for name, group in enumerate(groups) for _ in group])
    return Rollouts(rewards=rewards, groups=ids, response_keys=None if keys is None else torch.tensor(keys))


def test_rank_trim():
    # The lowest (-9) and the highest (5) of six rewards; with m = 2 also 0 and 3.
    batch = rollouts([3.0, -9.0, 1.0, 5.0, 0.0, 2.0])
    assert RankTrim().curate(batch).weights.tolist() == [1, 0, 1, 0, 1, 1]
    assert RankTrim(m=2).curate(batch).weights.tolist() == [0, 0, 1, 0, 0, 1]
    assert torch.equal(RankTrim().curate(batch).rewards, batch.rewards)


def test_rank_trim_leaves_small_and_equal_groups_whole():
    # 2m + 2 = 4 rewards are needed; the row without one does not count.
    small = [1.0, 2.0, 3.0, math.nan]
    large = [1.0, 2.0, 3.0, 4.0]
    equal = [2.0] * 5
    curation = RankTrim().curate(rollouts(small, large, equal))
    assert curation.weights.tolist() == [1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1]
    assert curation.metrics["whole_groups"] == 2
    assert curation.metrics["trimmed_rows"] == 2


def test_ties_at_the_extremes():
    # Range 8, tolerance 0.008: 5.0 and 5.004 tie at the top, 1.0 twice in the middle says nothing, -3 is alone below.
    curation = TieDetector().curate(rollouts([1.0, 5.0, 1.0, -2.996, 5.004, 2.0]))
    assert curation.scores.tolist() == [0, 1, 0, 0, 1, 0]
    assert curation.weights.tolist() == [1, 0, 1, 1, 0, 1]
    # Not of identical responses, and not where rewards have two values.
    group = [1.0, 5.0, 3.0, -3.0, 5.0, 2.0]
    identical = rollouts(group, keys=[0, 1, 2, 3, 1, 4])
    assert not TieDetector().curate(identical).anomalous.any()
    different = rollouts(group, keys=[0, 1, 2, 3, 9, 4])
    assert TieDetector().curate(different).anomalous.sum() == 2
    of_two_values = rollouts([0.0, 1.0, 1.0, 0.0], [math.nan] * 2)
    assert TieDetector().curate(of_two_values).scores.isnan().all()


def test_both_ends_and_the_tolerance():
    values = torch.tensor([0.0, 0.05, 0.5, 0.96, 1.0])
    apart = torch.arange(5)
    assert tied_extremes(values, apart, 0.01).tolist() == [False] * 5
    assert tied_extremes(values, apart, 0.045).tolist() == [False, False, False, True, True]
    assert tied_extremes(values, apart, 0.055).tolist() == [True, True, False, True, True]
    assert tied_extremes(values * 1e30, apart, 0.055).tolist() == [True, True, False, True, True]
    assert tied_extremes(values[:0], apart[:0], 0.1) is None
