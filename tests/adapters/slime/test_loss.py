"""Curated rewards in slime's own function of advantages, from a checkout of it; Megatron is stood in for.

GEOALIGN_SLIME names the folder of the checkout.
"""

import importlib

import pytest
import torch
from checkouts import use_checkout
from slime_parts import arguments, recorded

from geoalign.adapters.slime.hooks import SlimeRun

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]
STAND_INS = ("megatron", "ray", "sglang", "sglang_router", "wandb", "httpx")


def ones(args, rollout_data):
    """An advantage function of a user's: the same for all tokens."""
    found = [torch.ones_like(kl) for kl in rollout_data["kl"]]
    rollout_data.update(advantages=found, returns=found)


def token_advantages(monkeypatch, **changes):
    """What our function returns for the recorded samples, and what slime makes of it for their tokens."""
    use_checkout(monkeypatch, "GEOALIGN_SLIME", "slime", stand_ins=STAND_INS)
    loss = importlib.import_module("slime.backends.megatron_utils.loss")
    samples = recorded()
    _, advantages = SlimeRun(arguments({"curator": {"type": "pf_ppo_br"}})).curate(samples)
    lengths = [sample.response_length for sample in samples]
    rollout_data = {
        "rewards": advantages,
        "log_probs": [torch.zeros(length) for length in lengths],
        "response_lengths": lengths,
        "total_lengths": [len(sample.tokens) for sample in samples],
        "loss_masks": [torch.ones(length) for length in lengths],
    }
    args = arguments(kl_coef=0, use_rollout_logprobs=False, use_opd=False, **changes)
    loss.compute_advantages_and_returns(args, rollout_data)
    return advantages, rollout_data["advantages"]


def test_what_our_function_returns_is_the_advantage_of_every_token(monkeypatch):
    ours, of_tokens = token_advantages(monkeypatch)
    for advantage, found in zip(ours, of_tokens, strict=True):
        assert torch.equal(found, torch.full_like(found, advantage))


def test_an_advantage_function_of_the_users_writes_over_it(monkeypatch):
    """The reason why it is refused beside ours."""
    ours, of_tokens = token_advantages(monkeypatch, custom_advantage_function_path=f"{__name__}.ones")
    assert all(bool((found == 1).all()) for found in of_tokens)
    assert len(set(ours)) > 1
