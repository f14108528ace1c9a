"""The most frequent answer as the label, and its ties."""

import math

import pytest
import torch

from geoalign import Rollouts, group_advantages
from geoalign.curators.baselines.rewards import MajorityVote, most_frequent


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


def test_rewards_are_not_looked_at():
    # All verdicts speak for "8": the vote says "7" all the same.
    assert voted(["7", "7", "8"], rewards=[0.0, 0.0, 1.0]).rewards.tolist() == [1, 1, 0]
    assert voted(["7", "7", "8"], rewards=[1.0, 0.0, 1.0]).rewards.tolist() == [1, 1, 0]


def test_all_of_several_most_frequent_answers_are_rewarded():
    # "1" and "2" have two votes each, "3" one; either holds 2/5 of the group.
    curation = voted(["1", "2", "3", "2", "1"])
    assert curation.rewards.tolist() == [1, 1, 0, 1, 1]
    assert curation.metrics["tied_groups"] == 1
    assert curation.metrics["majority_share"] == pytest.approx(0.4)
    # All answers differ: no advantage.
    different = voted(["1", "2", "3"])
    assert group_advantages(different.rewards, torch.zeros(3, dtype=torch.long)).tolist() == [0, 0, 0]


def test_groups_vote_alone_and_a_group_without_answers_has_no_winner():
    curation = voted(["1", None, "1", "2", None, "2", "2"], groups=[0, 1, 0, 0, 1, 2, 2])
    assert curation.rewards.tolist() == [1, 0, 1, 0, 0, 1, 1]


def test_unscored_rows_vote_but_have_no_reward():
    # Without the first row's vote "1" and "2" would tie.
    curation = voted(["1", "1", "2"], rewards=[math.nan, 0.0, 0.0])
    assert curation.rewards[0].isnan()
    assert curation.rewards[1:].tolist() == [1, 0]
    assert curation.weights.tolist() == [0, 1, 1]


def test_most_frequent():
    assert most_frequent(["a", "b", "a", None, None, None]) == {"a"}
    assert most_frequent(["a", "b"]) == {"a", "b"}
    assert most_frequent([None]) == most_frequent([]) == frozenset()
