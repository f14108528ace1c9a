"""Reward functions that raise."""

import asyncio
from types import SimpleNamespace

import pytest
import torch

from geoalign.adapters.swift.rewards import FailedRewards

ROWS = {"request_id": ["a", "b"]}


def fails(completions, **columns):
    raise TimeoutError("no judge")


def test_its_rows_are_unscored_and_noted(caplog):
    failed = FailedRewards(raises=lambda: False)
    assert failed.guarded(fails)(["x", "y"], **ROWS) == [None, None]
    assert failed.requests == {"a", "b"}
    assert "reward function fails raised: 2 rows unscored" in caplog.text


def test_what_does_not_fail_passes():
    failed = FailedRewards(raises=lambda: False)
    assert failed.guarded(lambda completions, **_: [1.0, None])(["x", "y"], **ROWS) == [1.0, None]
    assert not failed.requests


def test_evaluation_raises_as_it_did():
    with pytest.raises(TimeoutError):
        FailedRewards(raises=lambda: True).guarded(fails)(["x"], **ROWS)


def test_asynchronous_functions_stay_so():
    class Judge:
        async def __call__(self, completions, **columns):
            raise TimeoutError("no judge")

    failed = FailedRewards(raises=lambda: False)
    guarded = failed.guarded(Judge())
    assert asyncio.iscoroutinefunction(guarded)
    assert asyncio.run(guarded(["x", "y"], **ROWS)) == [None, None]
    assert failed.requests == {"a", "b"}


def test_reward_models_stay_and_their_plugins_are_wrapped():
    model = torch.nn.Linear(1, 1)
    trainer = SimpleNamespace(reward_funcs=[fails, model], reward_model_plugins=[None, fails])
    FailedRewards(raises=lambda: False).guard(trainer)
    assert trainer.reward_funcs[1] is model
    assert trainer.reward_model_plugins[0] is None
    assert trainer.reward_model_plugins[1](inputs=[{}, {}], **ROWS) == [None, None]
