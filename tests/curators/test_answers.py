"""Rewards made of final answers: their mean and their vote."""

import pytest
import torch

from geoalign import Rollouts, group_advantages
from geoalign.curators.baselines.reshaped_rewards import AnswerMean, MajorityVote
from geoalign.curators.chain import Chain
from geoalign.curators.denoise import Denoise


def averaged(rewards, answers, groups=None):
    groups = torch.zeros(len(rewards), dtype=torch.long) if groups is None else torch.tensor(groups)
    return AnswerMean().curate(Rollouts(rewards=torch.tensor(rewards), groups=groups, answers=answers))


def test_a_reward_that_stays_keeps_its_bits():
    """0.1 + 0.6 and 0.7 tie, and the mean of seven times 0.7 differs from it by rounding."""
    summed = torch.tensor(0.1) + torch.tensor(0.6)
    rewards = torch.stack([summed, *torch.tensor([0.7] * 6), torch.tensor(0.0)])
    assert summed != rewards[1]
    groups = torch.zeros(8, dtype=torch.long)
    curation = AnswerMean().curate(Rollouts(rewards=rewards, groups=groups, answers=[*"aaaaaaa", "b"]))
    assert torch.equal(curation.rewards, rewards)
    assert curation.metrics["changed_rewards"] == 0


def test_every_row_gets_the_mean_of_its_answer_in_its_group():
    # Group 0: "7" has 1, 1, 0, 1, so 3/4 each; "8" has 0, 1, so 1/2; no answer keeps its own 1. Group 1: its "7" has 0.
    curation = averaged(
        rewards=[1.0, 1, 0, 1, 0, 1, 1, 0],
        answers=["7", "7", "7", "7", "8", "8", None, "7"],
        groups=[0, 0, 0, 0, 0, 0, 0, 1],
    )
    assert curation.rewards.tolist() == [0.75, 0.75, 0.75, 0.75, 0.5, 0.5, 1, 0]
    assert curation.scores.tolist() == [0.25, 0.25, 0.75, 0.25, 0.5, 0.5, 0, 0]
    assert curation.metrics["changed_rewards"] == 6
    assert not curation.anomalous.any()


@pytest.mark.parametrize(("size", "dtype"), [(3e38, torch.float32), (1.7e308, torch.float64)])
def test_the_mean_of_the_largest_numbers_is_finite(size, dtype):
    rewards = torch.tensor([size, size, -size, -size], dtype=dtype)
    groups = torch.zeros(4, dtype=torch.long)
    curation = AnswerMean().curate(Rollouts(rewards=rewards, groups=groups, answers=["7", "7", "7", "8"]))
    mean = size / 3
    assert curation.rewards.tolist() == pytest.approx([mean, mean, mean, -size])
    assert curation.scores.isfinite().all()


def voted(answers, groups=None, rewards=None):
    rows = len(answers)
    return MajorityVote().curate(
        Rollouts(
            rewards=torch.zeros(rows) if rewards is None else torch.tensor(rewards),
            groups=torch.zeros(rows, dtype=torch.long) if groups is None else torch.tensor(groups),
            answers=answers,
        )
    )


def test_the_most_frequent_answer_is_right():
    # Two of five vote "7", one each "8" and "9"; the row without an answer has no vote and is wrong. Its share is 2/5.
    curation = voted(["7", "8", None, "7", "9"])
    assert curation.rewards.tolist() == [1, 0, 0, 1, 0]
    assert curation.metrics["majority_share"] == pytest.approx(0.4)
    assert curation.metrics["tied_groups"] == 0


def test_all_of_several_most_frequent_answers_are_rewarded():
    # "1" and "2" have two votes each, "3" one; either holds 2/5 of the group.
    curation = voted(["1", "2", "3", "2", "1"])
    assert curation.rewards.tolist() == [1, 1, 0, 1, 1]
    assert curation.metrics["tied_groups"] == 1
    assert curation.metrics["majority_share"] == pytest.approx(0.4)
    # All answers differ: no advantage.
    different = voted(["1", "2", "3"])
    assert group_advantages(different.rewards, torch.zeros(3, dtype=torch.long)).tolist() == [0, 0, 0]


def test_trusted_rows_keep_their_reward_behind_it():
    vote = MajorityVote()
    batch = Rollouts(
        rewards=torch.tensor([0.0, 0.0, 1.0, 0.0]),
        groups=torch.zeros(4, dtype=torch.long),
        answers=["a", "a", "b", None],
        trusted=torch.tensor([True, False, True, False]),
    )
    assert vote.curate(batch).rewards.tolist() == [1, 1, 0, 0]
    # Denoise reads what is trusted: "a" is wrong, and so is its other row.
    chain = Chain([vote, Denoise(geometry="none")])
    assert chain.curate(batch).rewards.tolist() == [0, 0, 1, 0]
