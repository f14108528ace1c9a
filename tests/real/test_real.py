"""The real model, brought by pip (93 MB): run by `make real`."""

import pytest
import torch
from safetensors import safe_open

from geoalign.lab.models.language_model import initial_model
from geoalign.lab.models.settings import PretrainedModelConfig

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def model(smollm2):
    return initial_model(PretrainedModelConfig(path=str(smollm2), dtype="bfloat16"), alphabet=None, seed=0)


def test_the_files_are_plain_bfloat16(smollm2):
    with safe_open(smollm2 / "model.safetensors", "pt") as tensors:
        assert {tensors.get_tensor(name).dtype for name in tensors.keys()} == {torch.bfloat16}  # noqa: SIM118
    assert "Apache License" in (smollm2 / "LICENSE").read_text()


def test_the_shape_and_the_special_tokens_are_smollm2s(model):
    language_model, tokenizer = model
    config = language_model.config
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (576, 30, 49_152)
    assert sum(weights.numel() for weights in language_model.parameters()) == 134_515_008
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.model_max_length) == (2, 0, 8192)
    assert (config.eos_token_id, config.pad_token_id) == (2, 0)
    text = "def f(x):\n    return 12 * x  # don't"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_it_answers(model):
    language_model, tokenizer = model
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        out = language_model.generate(**ids, max_new_tokens=24, do_sample=False)
    answer = tokenizer.decode(out[0, ids["input_ids"].shape[1] :])
    assert "Paris" in answer
    assert answer.endswith("<|im_end|>")
