import pytest
import torch
from benchmarks.overhead.curating import Options
from benchmarks.overhead.step import PolicyStep

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
