import asyncio
import functools
import inspect
import logging

import numpy as np
import pytest
import torch
from trl import GRPOTrainer
from trl_parts import Recording, Scripted, curated_batch, curation, digits, drop_last_of_group, trainer

from geoalign.adapters.trl import unscored_on_failure
from geoalign.errors import InputError, UnsupportedError

GIVEN = [3.0, 1.0, 2.0, 7.0, 5.0, 5.0, 1.0, 0.0]


def given_rewards(completions, rewards=None, **columns):
    return list(GIVEN if rewards is None else rewards)


def numbered(broken, coroutine=False):
    """A reward of one row at a time, in the order of the rows, that fails in the rows named."""
    calls = iter(range(10**6))

    def one(completions, **columns):
        row = next(calls)
        if row in broken:
            raise ArithmeticError(f"row {row}")
        return [GIVEN[row]]

    async def later(completions, **columns):
        return one(completions)

    made = later if coroutine else one
    made.__name__ = "numbered"
    return made


@pytest.mark.parametrize(("scale", "coroutine"), [("group", False), ("batch", True), ("none", False)])
def test_advantages_are_trls_of_the_smaller_groups(tmp_path, scale, coroutine):
    failing = unscored_on_failure(numbered({1, 6}, coroutine=coroutine), row_by_row=True)
    made = trainer(tmp_path / "made", Scripted(curation), cls=Recording, reward=failing, scale_rewards=scale)
    batch = curated_batch(made)
    assert made.steps[0].rollouts.rewards.isnan().nonzero().squeeze(1).tolist() == [1, 6]
    scored = [row for row in range(8) if row not in (1, 6)]

    def smaller(completions, **columns):
        return [GIVEN[row] for row in scored]

    changes = {"num_generations": 3, "per_device_train_batch_size": 6, "scale_rewards": scale}
    trls = curated_batch(trainer(tmp_path / "trls", cls=GRPOTrainer, reward=smaller, **changes))
    torch.testing.assert_close(batch["advantages"][scored], trls["advantages"], atol=1e-6, rtol=1e-6)
    assert batch["advantages"][[1, 6]].tolist() == [0.0, 0.0]
    # Never 0: the mean of the six rewards is (3 + 2 + 7 + 5 + 5 + 0) / 6, that of eight would be 2.75.
    assert made._metrics["train"]["reward"][-1] == pytest.approx(22 / 6)
    assert made._metrics["train"]["geoalign/unscored_rows"] == [2.0]
    assert made._metrics["train"]["geoalign/failed_rewards/numbered"] == [0.25]


def test_a_failed_row_and_a_dropped_row(tmp_path):
    failing = unscored_on_failure(numbered({1, 6}), row_by_row=True)
    batch = curated_batch(trainer(tmp_path / "made", Scripted(drop_last_of_group), reward=failing))
    # Of each group two rows are left: rewards 3 and 2, 5 and 5.
    changes = {"num_generations": 2, "per_device_train_batch_size": 4}
    pairs = trainer(tmp_path / "trls", cls=GRPOTrainer, reward=lambda **_: [3.0, 2.0, 5.0, 5.0], **changes)
    expected = torch.zeros(8)
    expected[[0, 2, 4, 5]] = curated_batch(pairs)["advantages"]
    torch.testing.assert_close(batch["advantages"], expected, atol=1e-6, rtol=1e-6)
    # The failed row keeps its tokens in the normaliser, as TRL's unscored rows do; the dropped one does not.
    assert (batch["completion_mask"].sum(1) > 0).tolist() == [True, True, True, False] * 2


def test_another_functions_reward_does_not_stand_for_the_failed_one(tmp_path):
    failing = unscored_on_failure(numbered({1}), row_by_row=True)

    def absent(completions, **columns):
        return [None if row == 2 else 10.0 for row in range(8)]

    made = trainer(tmp_path, Scripted(curation), cls=Recording, reward=[failing, absent])
    curated_batch(made)
    # Row 1 failed: NaN. In row 2 the other function says that it does not apply: TRL's sum of the rest.
    expected = [13.0, torch.nan, 2.0, 17.0, 15.0, 15.0, 11.0, 10.0]
    torch.testing.assert_close(made.steps[0].rollouts.rewards, torch.tensor(expected), equal_nan=True)


def test_a_whole_batch_and_no_failure(tmp_path, caplog):
    def broken(completions, **columns):
        raise ArithmeticError("no reward today")

    made = trainer(tmp_path, Scripted(curation), cls=Recording, reward=unscored_on_failure(broken), max_steps=1)
    with caplog.at_level(logging.WARNING):
        made.train()
    assert "reward function 'broken' failed (ArithmeticError: no reward today): 8 of 8 rows" in caplog.text
    assert made.steps[0].rollouts.rewards.isnan().all()
    assert made.state.log_history[0]["geoalign/failed_rewards/broken"] == 1.0
    assert made.state.log_history[0]["grad_norm"] == 0
    guarded = unscored_on_failure(digits)
    assert guarded.__name__ == "digits"
    assert guarded(completions=["1a", "12"]) == [0.5, 1.0]
    assert guarded.geoalign_failed == [False, False]


def test_a_reward_may_have_such_an_attribute_but_no_such_column(tmp_path):
    def judge(completions, log_extra, **columns):
        log_extra("source", completions)
        return digits(completions)

    judge.failed = 1  # a counter of its own; no mark of ours
    with pytest.raises(UnsupportedError, match="'source'"):
        curated_batch(trainer(tmp_path, Scripted(curation), reward=judge))


def test_extra_columns_keep_their_rows_and_another_number_of_rewards_is_refused():
    logged = {}

    def logging_reward(completions, log_extra, **columns):
        if completions == ["b"]:
            raise ArithmeticError
        for text in completions:
            log_extra("text", [text])  # TRL appends
        return [1.0] * len(completions)

    guarded = unscored_on_failure(logging_reward, row_by_row=True)
    assert guarded(completions=["a", "b", "c"], log_extra=logged.__setitem__) == [1.0, None, 1.0]
    assert logged == {"text": ["a", None, "c"]}
    guarded = unscored_on_failure(logging_reward)
    assert guarded(completions=["a", "c"], log_extra=logged.__setitem__) == [1.0, 1.0]
    assert logged == {"text": ["a", "c"]}
    assert guarded(completions=["b"], log_extra=logged.__setitem__) == [None]
    assert logged == {"text": [None]}  # not the last batch's text
    with pytest.raises(InputError, match=r"'given_rewards': expected a list of 2 rewards.*; got 8"):
        unscored_on_failure(given_rewards)(completions=["a", "b"])


class AsyncJudge:
    async def __call__(self, completions, bonus=0.0, **columns):
        return [1.0 + bonus] * len(completions)


async def streamed(completions, **columns):
    for _ in completions:
        yield 3.0


async def later(completions, **columns):
    return (3.0 for _ in completions)


ALL_THREE = {
    "partial of an asynchronous object": functools.partial(AsyncJudge(), bonus=2.0),
    "synchronous and returns a coroutine": lambda **columns: AsyncJudge()(bonus=2.0, **columns),
    "asynchronous generator": streamed,
    "asynchronous and returns a generator": later,
    "generator": lambda completions, **columns: (3.0 for _ in completions),
    "tuple": lambda completions, **columns: (3,) * len(completions),
    "array": lambda completions, **columns: np.full(len(completions), 3, dtype=np.int64),
    "tensor": lambda completions, **columns: torch.full((len(completions),), 3.0, requires_grad=True),
    "single tensors": lambda completions, **columns: [torch.tensor(3.0) for _ in completions],
}


@pytest.mark.parametrize("row_by_row", [False, True])
@pytest.mark.parametrize("name", ALL_THREE)
def test_the_same_rewards_in_whatever_form(name, row_by_row):
    result = unscored_on_failure(ALL_THREE[name], row_by_row=row_by_row)(completions=["a", "b"])
    result = asyncio.run(result) if inspect.iscoroutine(result) else result
    assert result == [3.0, 3.0]
    assert all(type(value) is float for value in result)


def test_a_generator_that_raises_on_its_way_is_a_failure():
    def broken(completions, **columns):
        yield 1.0
        raise ArithmeticError

    assert unscored_on_failure(broken)(completions=["a", "b"]) == [None, None]


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (1.0, "1.0"),
        (None, "None"),
        (True, "True"),
        (torch.tensor(0.5), "tensor"),
        ("right", "'right'"),
        ({"reward": 1.0}, "{'reward': 1.0}"),
        ([1.0], "1"),
        ([None, "1.0"], "'1.0' for completion [01]"),
        ([[1.0], [2.0]], r"\[1.0\] for completion [01]"),
    ],
)
def test_what_is_no_list_of_rewards_says_what_to_return(result, got):
    message = (
        rf"reward function '<lambda>': expected a list of 2 rewards, one number or None per .*; got {got}.*Return "
    )
    with pytest.raises(InputError, match=message):
        unscored_on_failure(lambda **columns: result)(completions=["a", "b"])
