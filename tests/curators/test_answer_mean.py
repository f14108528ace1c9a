"""The mean reward of an answer in its group."""

import math

import torch

from geoalign import Rollouts
from geoalign.curators.baselines.rewards import AnswerMean


def averaged(rewards, answers, groups=None):
    groups = torch.zeros(len(rewards), dtype=torch.long) if groups is None else torch.tensor(groups)
    return AnswerMean().curate(Rollouts(rewards=torch.tensor(rewards), groups=groups, answers=answers))


def test_every_row_gets_the_mean_of_its_answer_in_its_group():
    # Group 0: "7" has 1, 1, 0, 1, so 3/4 each; "8" has 0, 1, so 1/2; no answer keeps its own 1. Group 1: its "7" has 0.
    curation = averaged([1.0, 1, 0, 1, 0, 1, 1, 0], ["7", "7", "7", "7", "8", "8", None, "7"], [0] * 7 + [1])
    assert curation.rewards.tolist() == [0.75, 0.75, 0.75, 0.75, 0.5, 0.5, 1, 0]
    assert curation.scores.tolist() == [0.25, 0.25, 0.75, 0.25, 0.5, 0.5, 0, 0]
    assert curation.metrics["changed_rewards"] == 6
    assert not curation.anomalous.any()


def test_a_verifier_that_errs_on_an_answer_every_time_is_believed():
    assert averaged([1.0, 1, 0], ["18", "18", "8"]).rewards.tolist() == [1, 1, 0]


def test_rows_without_a_reward_are_in_no_mean():
    curation = averaged([1.0, math.nan, 0], ["7", "7", "7"])
    assert curation.rewards[[0, 2]].tolist() == [0.5, 0.5]
    assert curation.rewards[1].isnan()
    assert curation.weights.tolist() == [1, 0, 1]
