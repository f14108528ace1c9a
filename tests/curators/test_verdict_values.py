"""The two values of verdicts, as the batches of a training show them."""

import pytest
import torch

from geoalign.curators.verdict_values import SeenVerdicts, VerdictValues


def shown(*batches, verdicts=()):
    """The values in the last of these batches, with verdicts of a second verifier on it."""
    seen = SeenVerdicts()
    for rewards in batches[:-1]:
        seen.learn(torch.tensor(rewards), torch.tensor([]))
    return seen.values(torch.tensor(batches[-1]), torch.tensor(verdicts))


@pytest.mark.parametrize(
    ("batches", "verdicts", "low", "high"),
    [
        ([[0.0, 1.0]], [], 0, 1),
        # Two rewards of each verdict: the medians.
        ([[0.0, 0.0, 0.1, 1.0, 1.1, 1.1]], [], 0, 1.1),
        # A bonus alone is taken for a verdict, until a batch or a verdict of the second verifier shows more.
        ([[0.0, 0.1]], [], 0, 0.1),
        ([[0.0, 0.1], [0.0, 0.0, 1.0, 1.1]], [], 0, 1),
        ([[0.0, 0.1]], [1.1], 0, 1.1),
        ([[1.0, 1.1, 1.1]], [0.1, 0.1], 0.1, 1.1),
        # One verdict of several that has a penalty of its own shows nothing.
        ([[0.0, 0.0, 0.0, 1.0]], [1.0, 0.0, -1.5], 0, 1),
        # A second verifier that says -10 where it failed. The first right response among refused ones is no outlier.
        ([[0.0, 0.0, 0.0, 1.0]], [1.0, 0.0, -10.0], 0, 1),
        ([[0.0, 0.0, 0.1]], [0.0, 0.1, 1.0], 0, 1),
        # Nothing of a later batch of refused responses changes the values, nor do equal rewards.
        ([[0.0, 1.0], [0.0, 0.1]], [], 0, 1),
        ([[0.0, 1.0], [0.0, 0.0]], [0.0, 1.0], 0, 1),
        # With one right response in thirty and a bonus a batch alone does not show them.
        ([[0.0, 1.0], [0.0] * 15 + [0.1] * 14 + [1.1]], [], 0, 1),
        # A verifier that accepts all, and a second one that does not.
        ([[1.0, 1.0]], [0.0, 1.0, 0.0], 0, 1),
        # Another scale.
        ([[0.0, 1.0], [-1.0, 1.0, -1.0, 1.0]], [], -1, 1),
    ],
)
def test_values(batches, verdicts, low, high):
    found = shown(*batches, verdicts=verdicts)
    assert found is not None
    assert [found.low, found.high] == pytest.approx([low, high])


@pytest.mark.parametrize("batches", [[[1.0, 1.0]], [[0.1, 0.5, 0.7, 0.9]], [[0.0, 1.0], [0.1, 0.5, 0.7, 0.9]], [[]]])
def test_scores_and_equal_rewards_show_none(batches):
    assert shown(*batches) is None


def test_the_lowest_reward_that_says_wrong_has_neither_bonus_nor_penalty():
    values = VerdictValues(low=0.1, high=1.1)
    # Down to -0.4 rewards are nearer to the low verdict than the middle is.
    assert values.lowest(torch.tensor([0.1, 0.0, -1.0, 1.1, torch.nan])) == 0
    assert values.lowest(torch.tensor([1.1])) == 0.1


@pytest.mark.parametrize(
    ("earlier", "rewards", "values"),
    [
        ([], [0.0, 1, 1, 0], (0, 1)),
        ([], [-1.0, 1, -1, -1], (-1, 1)),
        ([], [0.0, 10, 10, 0], (0, 10)),
        # A bonus of 0.1: also where one response in thirty is right, and where none is.
        ([], [0.1] * 15 + [0.0] * 14 + [1.1], (0, 1)),
        ([], [0.0, 0.1, 0.1, 0.0], (0, 1)),
        # One-sided batches, without earlier ones and with.
        ([], [0.0] * 4, (0, 1)),
        ([], [1.0] * 4, (0, 1)),
        ([], [-1.0, -1, -1.2, -1], (-1, 1)),
        ([-1.0, 1, -1, 1], [1.0] * 4, (-1, 1)),
        ([0.0, 10, 0, 10], [0.0] * 4, (0, 10)),
        # One response in thirty.
        ([], [0.0] * 29 + [10.0], (0, 10)),
        ([], [1.0] * 29 + [-1.0], (-1, 1)),
        # A batch of wrong responses with a bonus says nothing of later ones.
        ([0.0, 0.1, 0.1, 0.0], [0.0, 0.1, 0.1, 0.0], (0, 1)),
        ([0.0, 0.1, 0.1, 0.0], [0.0, 1.0, 1.0, 0.0], (0, 1)),
        # One of accepted responses does not, either.
        ([1.0] * 4, [-1.0, -1.0, -1.2, -1.0], (-1, 1)),
        # Two verdicts that are closer to each other than the usual ones, both far from 0.
        ([], [0.5, 1.0, 1.0, 0.5], (0.5, 1)),
        # Nobody can know: a bonus of 0.5 beside verdicts, scores, and a lone value that is unusual.
        ([], [0.0, 0.5, 1.0, 1.5], None),
        ([], [-3.1, 0.4, 2.2, 0.7], None),
        ([], [0.01 * row for row in range(25)], None),
        ([], [0.5 + 0.04 * row for row in range(25)], None),
        ([], [5.0] * 4, None),
    ],
)
def test_the_values_that_true_and_false_stand_for(earlier, rewards, values):
    seen = SeenVerdicts()
    seen.says_truths = True
    no_verdicts = torch.empty(0)
    seen.learn(torch.tensor(earlier), no_verdicts)
    resumed = SeenVerdicts()
    resumed.load_state_dict(seen.state_dict())
    found = resumed.values(torch.tensor(rewards), no_verdicts)
    assert (None if found is None else (found.low, found.high)) == values
