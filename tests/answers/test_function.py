"""A verifier of the user's own: found, called as TRL calls it, and checked; and the two naive ones that come along."""

import functools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from geoalign.answers.function import FunctionReward, function_rewards, load_function
from geoalign.answers.naive import strict, substring
from geoalign.answers.verified import VerifiedReward
from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.arithmetic import number_in_words

ROLLOUTS = Path(__file__).parents[2] / "recipes" / "rollouts" / "substring_reward.jsonl"
WORDS = {number_in_words(number): number for number in range(10)}


def test_a_function_of_a_module_and_of_a_file(tmp_path, monkeypatch):
    assert load_function("geoalign.answers.naive:substring") is substring
    (tmp_path / "mine.py").write_text("def always(completions, **_):\n    return [1.0] * len(completions)\n")
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py:always", f"{tmp_path}/mine.py:always"):
        assert load_function(name)(["a", "b"]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:f", "expected MODULE:NAME.*got 'no_such_module:f': No module named 'no_such_module'"),
        ("no_such_file.py:f", "expected MODULE:NAME.*No such file"),
        ("geoalign.answers.naive:none", "expected MODULE:NAME.*no attribute 'none'"),
        ("geoalign.answers.function:__doc__", "expected a function, got str"),
    ],
)
def test_what_is_no_function_is_named(name, words):
    with pytest.raises(ConfigError, match=f"reward.function: {words}"):
        load_function(name)


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([1.0], "expected a list of 2 rewards, one number or None per completion; got 1. Return one reward for each"),
        (1.0, "expected a list of 2 rewards, .*; got 1.0. Return one reward for each of `completions`"),
        (None, "expected a list of 2 rewards, .*; got None. Return "),
        ("10", "expected a list of 2 rewards, .*; got '10'. Return "),
        (
            [1.0, "right"],
            "expected a list of 2 rewards, .*; got 'right' for completion 1. Return None for one that could not",
        ),
        ([math.inf, 0], "expected a finite number or None, got inf for completion 0"),
        ([10**400, 0], "expected a list of 2 rewards, .*; got 10000.* for completion [01]"),
    ],
)
def test_wrong_results_are_named(results, words):
    with pytest.raises(InputError, match=f"reward.function: {words}"):
        function_rewards(lambda completions: results, 2, completions=["a", "b"])


class AsyncJudge:
    async def __call__(self, completions, bonus=0.0):
        return [None, bonus]

    def hidden(self, completions):
        return self(completions, bonus=2.0)


@pytest.mark.parametrize(
    "function",
    [
        functools.partial(AsyncJudge(), bonus=2.0),
        AsyncJudge().hidden,
        lambda completions: iter([math.nan, 2]),
        lambda completions: torch.tensor([math.nan, 2]),
        lambda completions: (None, np.float32(2)),
    ],
)
def test_an_asynchronous_function_is_awaited_and_rewards_may_come_in_any_sequence(function):
    missing, given = function_rewards(function, 2, completions=["a", "b"])
    assert math.isnan(missing)
    assert given == 2.0


def test_the_function_gets_what_trl_gives_and_the_truth_stands_beside_it():
    logged, given = {}, {}

    def half(prompts, completions, answer, problem_id, **columns):
        given.update(columns, problem_id=problem_id)
        return [None, 0.5, True]

    with VerifiedReward() as truth:
        reward = FunctionReward(half, truth)
        completions = [[{"role": "assistant", "content": text}] for text in (r"\boxed{8.0}", r"\boxed{18}", "8")]
        rewards = reward(
            ["p"] * 3,
            completions,
            answer=["8"] * 3,
            problem_id=["a"] * 3,
            trainer_state=None,
            log_extra=lambda name, values: logged.setdefault(name, values),
        )
    assert math.isnan(rewards[0])
    assert rewards[1:] == [0.5, 1.0]
    assert reward.true_rewards == logged["true_reward"] == [1, 0, 0]
    assert reward.counters == {"unscored": 1}
    assert reward.__name__ == "half"
    assert given["problem_id"] == ["a"] * 3
    assert "trainer_state" in given


def test_where_the_naive_verifiers_are_wrong():
    completions = [r"\boxed{8}", r"\boxed{18}", "5 + 3 = 8. \\boxed{9}", r"\boxed{8.0}", r"\boxed{ 8}", "8", "seven"]
    answer = ["8"] * 7
    assert substring(completions=completions, answer=answer) == [1, 1, 1, 1, 1, 1, 0]
    assert strict(completions=completions, answer=answer) == [1, 0, 0, 0, 0, 0, 0]
    with VerifiedReward() as truth:
        assert truth.score(completions, answer) == [1, 0, 0, 1, 1, 0, 0]


def test_the_rollouts_of_the_recipe_have_the_substring_verifiers_rewards():
    rows = [json.loads(line) for line in ROLLOUTS.read_text(encoding="utf-8").splitlines()]
    gold = [str(_value(row["prompt"])) for row in rows]
    assert substring(completions=[row["response"] for row in rows], answer=gold) == [row["reward"] for row in rows]


def _value(question):
    first, *others = re.findall(rf"(?:(plus|minus) )?({'|'.join(WORDS)})\b", question)
    return WORDS[first[1]] + sum((-1 if sign == "minus" else 1) * WORDS[word] for sign, word in others)
