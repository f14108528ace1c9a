"""Controls for continuous rewards that look at rewards alone: extremes by rank, and ties at the extremes."""

import math

import torch

from geoalign import Rollouts, group_advantages
from geoalign.curators.controls import RankTrim, TieDetector, tied_extremes


def rollouts(*groups, keys=None):
    rewards = torch.tensor([reward for group in groups for reward in group])
    ids = torch.tensor([name for name, group in enumerate(groups) for _ in group])
    return Rollouts(rewards=rewards, groups=ids, response_keys=None if keys is None else torch.tensor(keys))


def test_rank_trim():
    # The lowest (-9) and the highest (5) of six rewards; with m = 2 also 0 and 3.
    batch = rollouts([3.0, -9.0, 1.0, 5.0, 0.0, 2.0])
    assert RankTrim().curate(batch).weights.tolist() == [1, 0, 1, 0, 1, 1]
    assert RankTrim(m=2).curate(batch).weights.tolist() == [0, 0, 1, 0, 0, 1]
    assert torch.equal(RankTrim().curate(batch).rewards, batch.rewards)


def test_rank_trim_is_of_ranks():
    batch = rollouts([3.0, -9.0, 1.0, 5.0, 0.0, 2.0])
    stretched = rollouts([value**3 for value in batch.rewards.tolist()])
    assert torch.equal(RankTrim().curate(batch).weights, RankTrim().curate(stretched).weights)


def test_rank_trim_leaves_small_and_equal_groups_whole():
    # 2m + 2 = 4 rewards are needed; the row without one does not count.
    curation = RankTrim().curate(rollouts([1.0, 2.0, 3.0, math.nan], [1.0, 2.0, 3.0, 4.0], [2.0] * 5))
    assert curation.weights.tolist() == [1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1]
    assert curation.metrics["whole_groups"] == 2
    assert curation.metrics["trimmed_rows"] == 2


def test_rank_trim_leaves_the_advantages_of_the_others():
    batch = rollouts([3.0, -9.0, 1.0, 5.0, 0.0, 2.0])
    plain = group_advantages(batch.rewards, batch.groups)
    curation = RankTrim().curate(batch)
    trimmed = group_advantages(curation.rewards, batch.groups, weights=curation.weights)
    assert torch.equal(trimmed, plain * torch.tensor([1.0, 0, 1, 0, 1, 1]))


def test_ties_at_the_extremes():
    # Range 8, tolerance 0.008: 5.0 and 5.004 tie at the top; 1.0 and 1.0 tie in the middle, which says nothing; the
    # bottom, -3, stands alone.
    curation = TieDetector().curate(rollouts([1.0, 5.0, 1.0, -2.996, 5.004, 2.0]))
    assert curation.scores.tolist() == [0, 1, 0, 0, 1, 0]
    assert curation.weights.tolist() == [1, 0, 1, 1, 0, 1]


def test_identical_responses_are_no_tie():
    group = [1.0, 5.0, 3.0, -3.0, 5.0, 2.0]
    assert TieDetector().curate(rollouts(group)).anomalous.nonzero()[:, 0].tolist() == [1, 4]
    assert not TieDetector().curate(rollouts(group, keys=[0, 1, 2, 3, 1, 4])).anomalous.any()
    assert TieDetector().curate(rollouts(group, keys=[0, 1, 2, 3, 9, 4])).anomalous.sum() == 2


def test_rewards_of_two_values_are_not_judged():
    curation = TieDetector().curate(rollouts([0.0, 1.0, 1.0, 0.0], [2.0] * 4, [math.nan] * 2))
    assert curation.scores.isnan().all()
    assert curation.weights.tolist() == [1] * 8 + [0] * 2


def test_both_ends_and_the_tolerance():
    values, apart = torch.tensor([0.0, 0.05, 0.5, 0.96, 1.0]), torch.arange(5)
    assert tied_extremes(values, apart, 0.01).tolist() == [False] * 5
    assert tied_extremes(values, apart, 0.045).tolist() == [False, False, False, True, True]
    assert tied_extremes(values, apart, 0.055).tolist() == [True, True, False, True, True]
    assert tied_extremes(values * 1e30, apart, 0.055).tolist() == [True, True, False, True, True]
    assert tied_extremes(values[:0], apart[:0], 0.1) is None


def test_tied_rows_are_replaced_from_the_rest():
    curation = TieDetector(strategy="replace").curate(
        rollouts([1.0, 5.0, 3.0, -3.0, 5.0, 2.0]), generator=torch.Generator().manual_seed(0)
    )
    assert curation.replaced.nonzero()[:, 0].tolist() == [1, 4]
    assert set(curation.source[[1, 4]].tolist()) <= {0, 2, 3, 5}
