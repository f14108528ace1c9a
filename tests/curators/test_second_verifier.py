"""A second verifier in a training: what fails has no verdict, and only errors about settings stop it."""

import math

import numpy as np
import pytest
import torch

from geoalign import Rollouts
from geoalign.curators.second_verifier import SecondVerifierGuard, ask, questions_about
from geoalign.curators.verdict_values import SeenVerdicts
from geoalign.errors import ConfigError, InputError, MissingExtraError, ServiceError


def asked(questions, second_rewards, rewards=(0.0, 1.0, 0.0, 1.0, 0.0)):
    rollouts = Rollouts(
        rewards=torch.tensor(rewards), groups=torch.zeros(len(rewards), dtype=torch.long), second_rewards=second_rewards
    )
    return ask(questions, rollouts, SeenVerdicts(), rollouts.rewards)


def returning(value):
    def second_rewards(rows):
        if isinstance(value, Exception):
            raise value
        return value

    return second_rewards


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (RuntimeError("broken"), "RuntimeError: broken"),
        (ServiceError("refused"), "ServiceError: refused"),
        (InputError("second_rewards: expected 3 values"), "expected 3 values"),
        ([1.0], "1 verdicts on 3 rows"),
        (None, "expected a list of verdicts, got NoneType"),
        ("yes", "expected a list of verdicts, got str"),
        ({0: 1.0, 1: 0.0, 2: 1.0}, "expected a list of verdicts, got dict"),
        (torch.tensor(1.0), "expected a list of verdicts, got Tensor"),
    ],
)
def test_what_fails_as_a_whole_answers_nothing_and_is_said_once(value, said, caplog):
    guarded = SecondVerifierGuard().of(returning(value))
    assert guarded([0, 1, 2]) == guarded([3, 4, 5]) == [None] * 3
    assert len(caplog.messages) == 1
    assert said in caplog.messages[0]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "second_rewards: expected a list of verdicts, got NoneType"),
        (torch.tensor(1.0), "second_rewards: expected a list of verdicts, got Tensor"),
        (["1.0", 1.0], "second_rewards: expected a number or None as a verdict, got str"),
        ([math.inf, 1.0], r"second_rewards: expected a verdict between .* got inf"),
    ],
)
def test_without_the_guard_an_error_says_what_was_returned(value, said):
    with pytest.raises(InputError, match=said):
        asked([[0], [1]], returning(value))


@pytest.mark.parametrize("wrong", ["1.0", [1.0], math.inf, 1e39, 10**400, object()])
def test_a_verdict_of_another_kind_is_none_and_the_others_hold(wrong, caplog):
    guarded = SecondVerifierGuard().of(returning([1, wrong, False]))
    assert guarded([0, 1, 2]) == [1.0, None, 0.0]
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("given", [torch.tensor([1.0, math.nan]), np.array([1.0, math.nan]), iter([True, None])])
def test_numbers_of_any_kind_are_verdicts_and_none_is_no_failure(given, caplog):
    assert SecondVerifierGuard().of(returning(given))([0, 1]) == [1.0, None]
    assert not caplog.messages


@pytest.mark.parametrize(
    ("rewards", "rewards_of_truths"),
    [
        # Row 0 is called right, row 1 wrong, row 2 right and row 3 wrong.
        ((-1.0, 1.0, 1.0, -1.0), [1.0, -1.0, 1.0, -1.0]),
        ((0.0, 10.0, 10.0, 0.0), [10.0, 0.0, 10.0, 0.0]),
        # A bonus of 0.1 stays where the verdicts agree.
        ((0.0, 1.0, 1.1, 0.1), [1.0, 0.0, 1.1, 0.1]),
    ],
)
@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_a_truth_value_gives_the_reward_that_says_so(rewards, rewards_of_truths, kind):
    truths = SecondVerifierGuard().of(returning(kind([True, False, True, False])))
    assert asked([[0], [1], [2], [3]], truths, rewards).values == pytest.approx(rewards_of_truths)


def test_among_scores_a_truth_value_is_no_verdict_and_that_is_said_once(caplog):
    guard = SecondVerifierGuard("mine")
    for _ in range(2):
        verdicts = asked([[0], [1], [2]], guard.of(returning([True, 2.5, None])), (0.2, 3.5, 1.7))
        guard.warn_of_unread(verdicts.unread)
    assert (verdicts.rows, verdicts.values, verdicts.missing, verdicts.unread) == ([1], [2.5], 2, 1)
    assert len(caplog.messages) == 1
    assert "second verifier mine says true or false" in caplog.messages[0]


def test_a_number_is_the_reward_itself():
    numbers = SecondVerifierGuard().of(returning([1.0, 0.0]))
    assert asked([[0], [1]], numbers, (-1.0, 1.0)).values == [1.0, 0.0]


@pytest.mark.parametrize("error", [ConfigError("reward.appeals: unknown"), MissingExtraError("pip install ...")])
def test_what_only_the_user_can_put_right_stops_the_training(error):
    with pytest.raises(type(error)):
        SecondVerifierGuard().of(returning(error))([0])


def test_no_secret_of_an_error_is_logged(caplog):
    SecondVerifierGuard().of(returning(RuntimeError("https://me:hunter2@host/v1 refused")))([0])
    assert "hunter2" not in caplog.text


def test_identical_responses_are_asked_about_once():
    rollouts = Rollouts(
        rewards=torch.zeros(5),
        groups=torch.tensor([0, 0, 1, 0, 1]),
        response_keys=torch.tensor([7, 7, 7, 8, 7]),
    )
    questions = questions_about([4, 0, 1, 2, 3], rollouts, among=range(5))
    assert questions == [[4, 2], [0, 1], [3]]
    verdicts = asked(questions, lambda rows: [1.0, None, float(rows == [4, 0, 3])])
    assert verdicts.rows == [4, 2, 3]
    assert verdicts.values == [1.0, 1.0, 1.0]
    assert verdicts.missing == 1
