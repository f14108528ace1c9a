"""The passes that are timed are those of a training."""

import dataclasses

import pytest
import torch
from benchmarks.overhead.curating import ARCHITECTURES, Options
from benchmarks.overhead.step import PolicyStep, policy_costs
from transformers import Qwen3ForCausalLM

from geoalign.hidden.extract import extract_states

OPTIONS = Options(architecture="tiny", groups=2, size=4, prompt=5, response=6, micro_batch=2, repeats=2)


@pytest.fixture
def step(tmp_path):
    return PolicyStep(OPTIONS, tmp_path)


def test_both_ways_give_the_hidden_states_of_the_model(step):
    expected = extract_states(step.trainer.model, step.prompts, step.responses, position="predicting").states
    assert expected.shape == (8, 64)
    torch.testing.assert_close(step.hidden_pass(), expected)
    torch.testing.assert_close(step.logprob_pass(tapped=True), expected)
    assert step.logprob_pass(tapped=False) is None


def test_the_update_is_that_of_the_whole_batch(step):
    step.update()
    model = step.trainer.model
    found = {name: value.grad.clone() for name, value in model.named_parameters()}
    model.zero_grad()
    # One pass over all rows: with ratio 1 the gradient is that of -advantage x log-probability, mean over all tokens.
    logits = model(step.ids).logits[:, OPTIONS.prompt - 1 : -1].float()
    logprobs = logits.log_softmax(-1).gather(-1, step.ids[:, OPTIONS.prompt :, None])[..., 0]
    (-(step.advantages[:, None] * logprobs).sum() / (8 * 6)).backward()
    for name, value in model.named_parameters():
        torch.testing.assert_close(found[name], value.grad, rtol=1e-3, atol=1e-6)


def test_the_optimizer_moves_the_weights(step):
    before = step.trainer.model.lm_head.weight.detach().clone()
    step.update()
    step.optimize()
    assert not torch.equal(before, step.trainer.model.lm_head.weight)


def test_a_share_of_the_batch_is_counted_up(tmp_path):
    options = dataclasses.replace(OPTIONS, rows=4)
    step = PolicyStep(options, tmp_path)
    assert len(step.ids) == 4
    costs = policy_costs(step)
    assert set(costs) == {"hidden pass", "log-probability pass", "tap", "update", "optimizer"}
    assert {name: cost.scale for name, cost in costs.items() if name != "optimizer"} == dict.fromkeys(
        ["hidden pass", "log-probability pass", "tap", "update"], 2.0
    )
    # The optimizer steps once, however many rows there are.
    assert costs["optimizer"].scale == 1.0
    assert all(len(cost.seconds) == 2 for cost in costs.values())


@pytest.mark.parametrize(("name", "parameters"), [("qwen3-1.7b", 1_720_574_976), ("qwen3-4b", 4_022_468_096)])
def test_the_architectures_are_as_large_as_the_models(name, parameters):
    # The parameter counts on the models' pages: 1.7B and 4.0B.
    with torch.device("meta"):
        model = Qwen3ForCausalLM(ARCHITECTURES[name].config(tokens=64))
    assert sum(value.numel() for value in model.parameters()) == parameters
