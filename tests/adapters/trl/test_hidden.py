"""The hidden states and log-probabilities that a curator gets are the policy's own."""

import re

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from trl_parts import Scripted, curated_batch, curation, model, tokenizer, trainer

from geoalign.errors import InputError, UnsupportedError
from geoalign.hidden import HIDDEN_POSITIONS, answer_starts, extract_states

DIGITS = set(tokenizer().convert_tokens_to_ids(list("0123456789")))
GENERATED = {"num_iterations": 2, "per_device_train_batch_size": 8}


def rollouts_of(folder, requires=("hidden", "logprobs"), policy=None, extra=None, **changes):
    """What the curator saw in the first generation batch, its tokens, and the trainer."""
    watcher = Scripted(curation, requires=requires)
    made = trainer(folder, watcher, policy=policy, extra=extra, **{**GENERATED, **changes})
    generated = {}
    generate = made._generate

    def remember(prompts):
        generated["out"] = generate(prompts)
        return generated["out"]

    made._generate = remember
    curated_batch(made)
    prompt_ids, response_ids = generated["out"][:2]
    return watcher.seen[0], prompt_ids, response_ids, made


def reference(policy, prompt_ids, response_ids, position, layers=(-1,)):
    """One row at a time, without padding, through output_hidden_states."""
    rows = []
    policy.eval()
    for prompt, response in zip(prompt_ids, response_ids, strict=True):
        ids = torch.tensor([list(prompt) + list(response)])
        with torch.no_grad():
            hidden = policy(input_ids=ids, output_hidden_states=True).hidden_states
        states = torch.cat([hidden[layer][0] for layer in layers], dim=1)
        answer = next((place for place, token in enumerate(response) if token in DIGITS), None)
        before = -2 if answer is None else len(prompt) + answer - 1
        at = {"final": states[-1], "predicting": states[-2], "anchor": states[before]}
        rows.append(states[len(prompt) :].mean(0) if position == "mean" else at[position])
    return torch.stack(rows)


@pytest.fixture(autouse=True)
def the_first_digit_is_the_answer(monkeypatch):
    def start(text):
        found = re.search("[0-9]", text)
        return None if found is None else found.start()

    monkeypatch.setattr("geoalign.hidden.answers.answer_start", start)


@pytest.mark.parametrize("position", HIDDEN_POSITIONS)
@pytest.mark.parametrize("source", ["own_pass", "logprob_pass"])
def test_states_match_the_model_run_row_by_row(tmp_path, position, source):
    extra = {"hidden_position": position, "hidden_source": source}
    seen, prompt_ids, response_ids, made = rollouts_of(tmp_path, extra=extra, max_completion_length=20)
    assert len({len(ids) for ids in response_ids}) > 1
    torch.testing.assert_close(
        seen.hidden, reference(made.model, prompt_ids, response_ids, position), atol=2e-5, rtol=1e-4
    )
    assert seen.hidden.dtype == torch.float32
    assert not seen.hidden.requires_grad
    answers = answer_starts(made._tokenizer, response_ids)
    offline = extract_states(
        made.model, prompt_ids, response_ids, position=position, answer_starts=answers, batch_size=3
    )
    torch.testing.assert_close(seen.hidden, offline.states, atol=2e-5, rtol=1e-4)
    assert seen.lengths.tolist() == offline.lengths.tolist()


@pytest.mark.parametrize(("source", "position"), [("own_pass", "mean"), ("logprob_pass", "anchor")])
def test_several_layers_stand_side_by_side(tmp_path, source, position):
    extra = {"hidden_position": position, "hidden_source": source, "hidden_layer": [1.0, 0]}
    seen, prompt_ids, response_ids, made = rollouts_of(tmp_path, extra=extra, max_completion_length=20)
    expected = reference(made.model, prompt_ids, response_ids, position, layers=(1, 0))
    assert seen.hidden.shape[1] == 2 * made.model.config.hidden_size
    torch.testing.assert_close(seen.hidden, expected, atol=2e-5, rtol=1e-4)


def test_rows_without_an_answer_are_logged(tmp_path):
    extra = {"hidden_position": "anchor"}
    _, _, response_ids, made = rollouts_of(tmp_path, extra=extra, max_completion_length=8)
    without = sum(not set(ids) & DIGITS for ids in response_ids)
    assert 0 < without < len(response_ids)
    assert made._metrics["train"]["geoalign/rows_without_answer"] == [without]


def test_a_layer_that_is_none_is_refused_before_the_first_step(tmp_path):
    with pytest.raises(InputError, match="hidden_layer: expected at most 1, the model's depth, got 2"):
        trainer(tmp_path, Scripted(curation, requires=("hidden",)), extra={"hidden_layer": 2})


@pytest.mark.parametrize("changes", [{}, {"num_iterations": 1, "temperature": 0.7}])
def test_logprobs_are_the_mean_over_the_response(tmp_path, changes):
    """From TRL's pass where it runs (first case), from our own where it does not."""
    seen, prompt_ids, response_ids, made = rollouts_of(tmp_path, max_completion_length=20, **changes)
    made.model.eval()
    expected = []
    for prompt, response in zip(prompt_ids, response_ids, strict=True):
        ids = torch.tensor([list(prompt) + list(response)])
        with torch.no_grad():
            logits = made.model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / made.temperature
        expected.append(logits.log_softmax(-1).gather(1, torch.tensor(response)[:, None]).mean())
    torch.testing.assert_close(seen.logprobs, torch.stack(expected), atol=2e-5, rtol=1e-4)


# Random weights in the adapter, so that it matters from the first step on.
LORA = {"r": 4, "lora_dropout": 0.0, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


@pytest.mark.parametrize("source", ["own_pass", "logprob_pass"])
def test_lora_states_are_the_adapted_models_not_the_references(tmp_path, source):
    # beta: the reference pass runs through the same model with its adapter off, after the policy's own pass.
    extra = {"peft_config": LoraConfig(**LORA, init_lora_weights=False)}
    seen, prompt_ids, response_ids, made = rollouts_of(
        tmp_path, beta=0.1, extra={**extra, "hidden_position": "final", "hidden_source": source}
    )
    adapted = reference(made.model, prompt_ids, response_ids, "final")
    torch.testing.assert_close(seen.hidden, adapted, atol=2e-5, rtol=1e-4)
    with made.model.disable_adapter():
        bare = reference(made.model, prompt_ids, response_ids, "final")
    assert (adapted - bare).abs().max() > 1e-2


def test_dropout_is_off_for_the_states_and_back_on_afterwards(tmp_path):
    policy = model(dropout=0.5)
    seen, prompt_ids, response_ids, made = rollouts_of(tmp_path, policy=policy, extra={"hidden_position": "final"})
    assert all(module.training for module in made.model.modules())
    torch.testing.assert_close(
        seen.hidden, reference(made.model, prompt_ids, response_ids, "final"), atol=2e-5, rtol=1e-4
    )


@pytest.mark.parametrize(
    ("changes", "policy", "words"),
    [
        ({"num_iterations": 1}, None, "no old log-probabilities"),
        ({"mask_truncated_completions": True}, None, "mask_truncated_completions"),
        ({}, 0.1, "dropout"),
    ],
)
def test_a_log_probability_pass_that_cannot_serve_is_refused(tmp_path, changes, policy, words):
    with pytest.raises(UnsupportedError, match=words):
        rollouts_of(
            tmp_path,
            policy=None if policy is None else model(dropout=policy),
            extra={"hidden_source": "logprob_pass"},
            **changes,
        )


def test_prompt_learning_is_refused(tmp_path):
    policy = get_peft_model(model(), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    with pytest.raises(UnsupportedError, match="prompt learning"):
        rollouts_of(tmp_path, policy=policy)
