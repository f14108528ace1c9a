"""Rewards made of final answers: their mean, their vote, and labels refined by votes."""

from dataclasses import replace

import pytest
import torch

from geoalign import Rollouts, group_advantages
from geoalign.curators.baselines.rewards import AnswerMean, LabelRefinement, MajorityVote, settled
from geoalign.curators.chain import Chain
from geoalign.curators.denoise import Denoise


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


NAN = float("nan")


def visit(answers, rewards=None, prompts=None):
    """Rows of one prompt, or of those named; "-" gives no answer."""
    size = len(answers)
    prompts = [0] * size if prompts is None else prompts
    return Rollouts(
        rewards=torch.tensor([0.0] * size if rewards is None else rewards),
        groups=torch.tensor(prompts),
        answers=[None if answer == "-" else answer for answer in answers],
        prompt_keys=torch.tensor(prompts) + 100,
    )


def rewards_of(curator, *args):
    return curator.curate(visit(*args)).rewards.tolist()


def test_settled_by_hand():
    assert settled(["a"])
    assert settled(["a", "b", "a"])
    assert not settled(["a", "b"])  # a tie
    assert not settled(["a", "a", "b"])  # another one leads
    assert not settled([None, None, "a"])  # most visits had none
    assert not settled(["a", "a", None])


def test_the_label_changes_when_the_majority_has_risen_long_enough():
    # Shares 2/4, 3/4, 4/4: a slope of 1/4 a visit. After one visit and after two nothing may change yet.
    curator = LabelRefinement(start=2, slope=0.2)
    observed = [0.0, 0.0, 1.0, 0.0]
    assert rewards_of(curator, "aabc", observed) == observed
    assert rewards_of(curator, "aaab", observed) == observed
    curation = curator.curate(visit("aaaa", observed))
    assert curation.rewards.tolist() == [1, 1, 1, 1]
    # Rows 0, 1 and 3 had been called wrong: the share, 1, is their score; row 2 agrees with the new label.
    assert curation.scores.tolist() == [1, 1, -1, 1]
    assert curation.anomalous.tolist() == [True, True, False, True]
    assert curation.metrics["refined_prompts"] == 1
    assert curation.metrics["changed_rewards"] == 3
    assert curation.metrics["majority_slope"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("earlier", "reason"),
    [
        (("aaaa", "aaaa"), "the share does not rise"),
        (("bbcd", "bbcd"), "another majority was more frequent"),
        (("aabb", "aabb"), "earlier visits had no majority, which is more frequent"),
    ],
)
def test_otherwise_the_rewards_stay(earlier, reason):
    curator = LabelRefinement(start=2, slope=0.1)
    for answers in earlier:
        curator.curate(visit(answers))
    observed = [0.0, 1.0, 0.0, 0.0]
    assert rewards_of(curator, "aaab", observed) == observed, reason


def test_prompts_are_apart_and_rows_of_one_prompt_are_one_visit():
    curator = LabelRefinement(start=1, slope=0.2)
    # Prompt 0: 2/4 of a, then 4/4: a slope of 1/2. Prompt 1: 2/2, then 2/2: none. Its rows stand between the others.
    curator.curate(visit("aabdxx", None, [0, 0, 0, 0, 1, 1]))
    curation = curator.curate(visit("axaaxa", None, [0, 1, 0, 0, 1, 0]))
    assert curation.rewards.tolist() == [1, 0, 1, 1, 0, 1]
    assert curation.metrics["prompts"] == 2
    # Two groups of one prompt: four votes, not twice two.
    batch = visit("aabb")
    split = Rollouts(
        rewards=batch.rewards, groups=torch.tensor([0, 0, 1, 1]), answers=batch.answers, prompt_keys=batch.prompt_keys
    )
    once = LabelRefinement()
    once.curate(split)
    assert list(once.state_dict()["majorities"].values()) == [[None]]


def test_rows_without_answer_or_reward():
    curator = LabelRefinement(start=1, slope=0.1)
    curator.curate(visit("aab-"))  # 2 of 4
    curation = curator.curate(visit("aaa-", [0.0, NAN, 0.0, 1.0]))  # 3 of 4: the row without a reward votes
    assert curation.rewards.nan_to_num(-1).tolist() == [1, -1, 1, 0]
    assert curation.weights.tolist() == [1, 0, 1, 1]
    assert curation.scores.nan_to_num(-9).tolist() == [0.75, -9, 0.75, 0.75]
    assert LabelRefinement().curate(visit("----")).metrics["majority_share"] == 0


def test_trusted_rows_keep_their_reward_behind_it():
    batch = replace(visit("aab-", [0.0, 0.0, 1.0, 0.0]), trusted=torch.tensor([True, False, True, False]))
    refinement = LabelRefinement(start=1, slope=0.0)
    chain = Chain([refinement, Denoise(geometry="none")])
    chain.curate(batch)
    assert chain.curate(batch).rewards[batch.trusted].tolist() == [0, 1]
    assert refinement.curate(batch).rewards.tolist() == [1, 1, 0, 0]
