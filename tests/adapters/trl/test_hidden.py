import re
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from transformers import Gemma3Config, Gemma3ForConditionalGeneration
from trl_parts import SHORT, Scripted, curated_batch, curation, model, tokenizer, trainer

from geoalign.adapters.grpo_trainer.states import HiddenLocation
from geoalign.errors import InputError, UnsupportedError
from geoalign.hidden import HIDDEN_POSITIONS, answer_starts, extract_states

DIGITS = set(tokenizer().convert_tokens_to_ids(list("0123456789")))
LAYERS = [1.0, 0]
TAPPED = {"hidden_source": "logprob_pass"}
VIRTUAL = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
# Of a model with a vision tower.
TEXT = {"vocab_size": 56, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 16}
TEXT |= {"num_attention_heads": 2, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 1}


@pytest.fixture(autouse=True)
def the_first_digit_is_the_answer(monkeypatch):
    def start(text):
        found = re.search("[0-9]", text)
        return None if found is None else found.start()

    monkeypatch.setattr("geoalign.hidden.answer_tokens.answer_start", start)


def made_for(folder, *, policy=None, extra=None, **changes):
    """A trainer that keeps the tokens that it generates: with another update a batch, it asks for log-probabilities."""
    watcher = Scripted(curation, requires=("hidden", "logprobs"))
    made = trainer(folder, watcher, policy=policy, extra=extra, **{"num_iterations": 2, **changes})
    generate = made._generate

    def remember(prompts):
        made.generated = generate(prompts)
        return made.generated

    made._generate = remember
    return made


def seeing():
    torch.manual_seed(0)
    return Gemma3ForConditionalGeneration(Gemma3Config(text_config=TEXT, vision_config=VISION))


def rollouts_of(made):
    """What the curator sees in the next generation batch, its prompt tokens and its response tokens."""
    curated_batch(made)
    return made.curator.seen[-1], *made.generated[:2]


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
        at = {"final": states[-1], "predicting": states[-2], "answer_start": states[before]}
        rows.append(states[len(prompt) :].mean(0) if position == "mean" else at[position])
    return torch.stack(rows)


@pytest.mark.parametrize("policy", [model, seeing])  # models with a processor: here by their tokenizer
@pytest.mark.parametrize("source", ["own_pass", "logprob_pass"])
def test_states_match_the_model_run_row_by_row(tmp_path, source, policy):
    made = made_for(tmp_path, policy=policy(), extra={"hidden_source": source}, max_completion_length=12, **SHORT)
    for position in HIDDEN_POSITIONS:
        made._curation_options = replace(made._curation_options, location=HiddenLocation(position, LAYERS))
        seen, prompts, responses = rollouts_of(made)
        assert len({len(ids) for ids in responses}) > 1
        # Several layers stand side by side.
        expected = reference(made.model, prompts, responses, position, layers=(1, 0))
        torch.testing.assert_close(seen.hidden, expected, atol=2e-5, rtol=1e-4)
        assert seen.hidden.dtype == torch.float32
        assert not seen.hidden.requires_grad
        answers = answer_starts(made._tokenizer, responses)
        options = {"position": position, "layer": LAYERS, "answer_starts": answers, "batch_size": 3}
        offline = extract_states(made.model, prompts, responses, **options)
        torch.testing.assert_close(seen.hidden, offline.states, atol=2e-5, rtol=1e-4)
        assert seen.lengths.tolist() == offline.lengths.tolist()
        if position == "answer_start":
            without = sum(not set(ids) & DIGITS for ids in responses)
            assert made._metrics["train"]["geoalign/rows_without_answer"] == [without]


@pytest.mark.parametrize("changes", [{}, {"num_iterations": 1, "temperature": 0.7}])
def test_logprobs_are_the_mean_over_the_response(tmp_path, changes):
    """From TRL's pass where it runs (first case), from our own where it does not."""
    made = made_for(tmp_path, max_completion_length=12, **changes)
    seen, prompts, responses = rollouts_of(made)
    made.model.eval()
    expected = []
    for prompt, response in zip(prompts, responses, strict=True):
        ids = torch.tensor([list(prompt) + list(response)])
        with torch.no_grad():
            logits = made.model(input_ids=ids).logits[0]
        of_response = logits[len(prompt) - 1 : -1] / made.temperature
        logprobs = of_response.log_softmax(-1)
        of_tokens = logprobs.gather(1, torch.tensor(response)[:, None])
        expected.append(of_tokens.mean())
    torch.testing.assert_close(seen.logprobs, torch.stack(expected), atol=2e-5, rtol=1e-4)


# Random weights in the adapter, so that it matters from the first step on.
LORA = {"r": 4, "lora_dropout": 0.0, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


@pytest.mark.parametrize("source", ["own_pass", "logprob_pass"])
def test_lora_states_are_the_adapted_models_not_the_references(tmp_path, source):
    # beta: the reference pass runs through the same model with its adapter off, after the policy's own pass.
    extra = {"peft_config": LoraConfig(**LORA, init_lora_weights=False), "hidden_source": source}
    made = made_for(tmp_path, beta=0.1, extra=extra)
    seen, prompts, responses = rollouts_of(made)
    adapted = reference(made.model, prompts, responses, "predicting")
    torch.testing.assert_close(seen.hidden, adapted, atol=2e-5, rtol=1e-4)
    with made.model.disable_adapter():
        bare = reference(made.model, prompts, responses, "predicting")
    assert (adapted - bare).abs().max() > 1e-2


@pytest.mark.filterwarnings("ignore")  # what torch says of TRL's loss as it compiles it
def test_a_compiled_model_shows_its_states(tmp_path):
    made = made_for(tmp_path, torch_compile=True, torch_compile_backend="eager", max_steps=3, learning_rate=0.0)
    made.train()
    assert hasattr(made.model_wrapped, "_orig_mod")
    expected = reference(made.model, *made.generated[:2], "predicting")
    torch.testing.assert_close(made.curator.seen[1].hidden, expected, atol=2e-5, rtol=1e-4)


def test_dropout_is_off_for_the_states_and_back_on_afterwards(tmp_path):
    made = made_for(tmp_path, policy=model(dropout=0.5))
    seen, prompts, responses = rollouts_of(made)
    assert all(module.training for module in made.model.modules())
    expected = reference(made.model, prompts, responses, "predicting")
    torch.testing.assert_close(seen.hidden, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("extra", "policy", "changes", "error", "words"),
    [
        ({"hidden_layer": 2}, model, {}, InputError, "hidden_layer: expected at most 1, the model's depth, got 2"),
        ({}, lambda: get_peft_model(model(), VIRTUAL), {}, UnsupportedError, "prompt learning"),
        # TRL's pass cannot serve.
        (TAPPED, lambda: model(dropout=0.1), {}, UnsupportedError, "dropout"),
        (TAPPED, model, {"num_iterations": 1}, UnsupportedError, "no old log-probabilities"),
        (TAPPED, model, {"mask_truncated_completions": True}, UnsupportedError, "mask_truncated_completions"),
    ],
)
def test_what_cannot_serve_is_refused_before_the_first_step(tmp_path, extra, policy, changes, error, words):
    with pytest.raises(error, match=words):
        made_for(tmp_path, extra=extra, policy=policy(), **changes)
