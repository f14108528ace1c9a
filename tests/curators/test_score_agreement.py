"""Rows kept by agreement of reward and second score, in balanced numbers."""

import torch

from geoalign import Rollouts
from geoalign.curators.baselines.probes import ScoreAgreement, agreeing_rows, balanced
from geoalign.lab.bench.synthetic import synthetic_rollouts


def test_the_lowest_of_the_right_and_the_highest_of_the_wrong_go():
    # Right rows 0 to 3 with scores 3, 1, 4, 2: the two best are 0 and 2. Wrong rows 4 and 5: both are kept of four.
    rewards, scores = torch.tensor([1.0, 1, 1, 1, 0, 0]), torch.tensor([3.0, 1, 4, 2, 9, -9])
    assert agreeing_rows(rewards, scores, 4).tolist() == [0, 2, 4, 5]
    # Of three, two right and one wrong: the one of the lowest score.
    assert agreeing_rows(rewards, scores, 3).tolist() == [0, 2, 5]
    assert agreeing_rows(rewards, scores, 5).tolist() == [0, 2, 3, 4, 5]
    assert agreeing_rows(1 - rewards, -scores, 4).tolist() == [0, 2, 4, 5]


def test_what_stays_whole():
    scores = torch.tensor([3.0, 1, 4])
    assert agreeing_rows(torch.ones(3), scores, 2).tolist() == [0, 1, 2]
    assert agreeing_rows(torch.zeros(3), scores, 2).tolist() == [0, 1, 2]
    assert agreeing_rows(torch.tensor([1.0, 0, 1]), scores, 3).tolist() == [0, 1, 2]


def one_by_one(right, wrong, kept):
    while right + wrong > kept:
        if right > wrong:
            right -= 1
        else:
            wrong -= 1
    return right, wrong


def test_numbers_are_those_of_leaving_out_one_of_the_larger_side_at_a_time():
    for right in range(1, 9):
        for wrong in range(1, 9):
            for kept in range(2, right + wrong + 1):
                assert balanced(right, wrong, kept) == one_by_one(right, wrong, kept), (right, wrong, kept)


def test_half_of_each_group_is_kept_and_flips_go_first():
    curator = ScoreAgreement()
    for seed in range(4):
        planted = synthetic_rollouts(64, 8, 16, seed=seed, rewards="binary", corruption=0.2, signal=2.0)
        curation = curator.curate(planted.rollouts)
    rewards, groups = planted.rollouts.rewards.view(64, 8), planted.rollouts.groups[curation.source]
    unequal = (rewards.amax(1) > rewards.amin(1)).tolist()
    assert torch.bincount(groups).tolist() == [4 if mixed else 8 for mixed in unequal]
    left_out = torch.ones(len(planted.corrupted), dtype=torch.bool)
    left_out[curation.source] = False
    assert planted.corrupted[left_out].float().mean() > 2 * planted.corrupted[~left_out].float().mean()


def test_as_many_right_as_wrong():
    rollouts = synthetic_rollouts(16, 8, 16, seed=0, rewards="binary").rollouts
    curation = ScoreAgreement(m=4).curate(rollouts)
    for group in range(16):
        ones = int(rollouts.rewards[rollouts.groups == group].sum())
        kept = curation.rewards[rollouts.groups[curation.source] == group]
        if 2 <= ones <= 6:
            assert kept.tolist().count(1.0) == kept.tolist().count(0.0) == 2


def test_without_a_prediction_everything_stays():
    batch = Rollouts(
        rewards=torch.tensor([1.0, 0.0, 0.0, 1.0]),
        groups=torch.zeros(4, dtype=torch.long),
        hidden=torch.randn(4, 3, generator=torch.Generator().manual_seed(0)),
    )
    curator = ScoreAgreement()
    assert curator.curate(batch).source.tolist() == [0, 1, 2, 3]
    # It has learned from it all the same.
    assert len(curator.curate(batch).source) == 2
