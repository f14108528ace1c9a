"""The contract of adapters, on the list of samples that slime's rollout manager hands over."""

import math

import pytest
from slime_parts import arguments, recorded

from geoalign.adapters.slime.hooks import SlimeRun
from geoalign.testing import TrainedRows, adapter_checks


def train_with(curator, rewards):
    samples = recorded()[: len(rewards)]
    for sample, reward in zip(samples, rewards, strict=True):
        sample.reward = None if math.isnan(reward) else reward
    run = SlimeRun(arguments({"curator": "grpo"}, rollout_batch_size=2, calculate_per_token_loss=True))
    run.session.curator = curator
    _, advantages = run.curate(samples)
    responses = [None if sample.remove_sample else tuple(sample.tokens) for sample in samples]
    return TrainedRows(responses=responses, advantages=advantages)


@pytest.mark.parametrize("check", adapter_checks(train_with))
def test_the_contract(check):
    check()
