"""The contract of adapters, on the list of samples that slime's rollout manager hands over."""

import math

import pytest
from asking import settings_with
from slime_parts import arguments, recorded

from geoalign.adapters.slime.hooks import SlimeRun
from geoalign.testing import TrainedRows, adapter_checks


def train_with(curator, rewards, second_verifier=None):
    samples = recorded()[: len(rewards)]
    for number, (sample, reward) in enumerate(zip(samples, rewards, strict=True)):
        sample.response = f"response {number}"
        sample.reward = None if math.isnan(reward) else reward
    run = SlimeRun(arguments(settings_with(second_verifier), rollout_batch_size=2, calculate_per_token_loss=True))
    run.session.curator = curator
    _, advantages = run.curate(samples)
    responses = [None if sample.remove_sample else tuple(sample.tokens) for sample in samples]
    return TrainedRows(responses=responses, advantages=advantages)


@pytest.mark.parametrize("check", adapter_checks(train_with))
def test_the_contract(check):
    check()
