from typing import Any

import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from geoalign.lab.models.language_model import make_tiny_model, make_tokenizer, merged, with_adapters
from geoalign.lab.models.settings import LoraConfig, TinyModelConfig


def model_of(seed: int = 0) -> Any:
    return make_tiny_model(
        TinyModelConfig(hidden_size=16, layers=1, heads=1), make_tokenizer("01=", max_length=32), seed=seed
    )


def test_adapters_start_at_nothing_and_are_drawn_from_the_seed() -> None:
    ids = torch.tensor([[3, 4, 5]])
    plain = model_of()(ids).logits
    config = LoraConfig(rank=2, scale=3.0)
    first = with_adapters(model_of(), config, seed=1)
    again = with_adapters(model_of(), config, seed=1)
    other = with_adapters(model_of(), config, seed=2)
    assert torch.equal(first(ids).logits, plain)
    trained = {name for name, weight in first.named_parameters() if weight.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    drawn = [dict(model.named_parameters()) for model in (first, again, other)]
    assert all(torch.equal(drawn[0][name], drawn[1][name]) for name in trained)
    assert any(not torch.equal(drawn[0][name], drawn[2][name]) for name in trained)


def test_merging_adds_scale_times_b_a() -> None:
    adapted = with_adapters(model_of(), LoraConfig(rank=2, scale=3.0, target_modules=("q_proj",)), seed=0)
    layer = next(module for name, module in adapted.named_modules() if name.endswith("q_proj"))
    before = layer.base_layer.weight.detach().clone()
    up, down = layer.lora_B["default"].weight, layer.lora_A["default"].weight
    with torch.no_grad():
        up.fill_(0.5)
    expected = before + 3.0 * (up @ down)
    plain = merged(adapted)
    found = dict(plain.named_parameters())["model.layers.0.self_attn.q_proj.weight"]
    assert torch.allclose(found, expected, atol=1e-6)
    assert merged(plain) is plain
    assert with_adapters(plain, None, seed=0) is plain


USER = [{"role": "user", "content": "1+2="}]
REPLY = [{"role": "assistant", "content": "3"}]


def test_one_token_per_character_and_the_turns_of_a_chat() -> None:
    tokenizer = make_tokenizer("321+=", max_length=64)
    # 6 special tokens (pad 0, end 1, unknown 2, user 3, reply 4, rule 5), then + 6, 1 7, 2 8, 3 9, = 10.
    assert tokenizer("1+2=")["input_ids"] == [7, 6, 8, 10]
    prompt = tokenizer.apply_chat_template(USER, add_generation_prompt=True)["input_ids"]
    assert prompt == [3, 7, 6, 8, 10, 4]
    assert tokenizer.apply_chat_template(USER + REPLY)["input_ids"] == [*prompt, 9, 1]
    system = [{"role": "system", "content": "1"}, *USER]
    assert tokenizer.apply_chat_template(system)["input_ids"] == [5, 7, 3, 7, 6, 8, 10]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)


@hypothesis_settings(max_examples=10)
@given(st.text(max_size=30))
def test_without_an_alphabet_any_text_comes_back(text: str) -> None:
    tokenizer = make_tokenizer(None, max_length=512)
    text = text.encode("utf-8", "ignore").decode()
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_seed_decides_the_weights_and_nothing_else_is_drawn() -> None:
    tokenizer = make_tokenizer("12", max_length=64)
    config = TinyModelConfig(hidden_size=16, layers=1, heads=2)
    before = torch.get_rng_state()
    first = make_tiny_model(config, tokenizer, seed=1)
    again = make_tiny_model(config, tokenizer, seed=1)
    other = make_tiny_model(config, tokenizer, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    weights = [model.model.layers[0].mlp.up_proj.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.get_input_embeddings().weight.shape == (8, 16)
    assert first.get_output_embeddings().weight is first.get_input_embeddings().weight
    assert first.generation_config.eos_token_id == tokenizer.eos_token_id


def test_words_are_tokens_and_the_longest_one_counts():
    tokenizer = make_tokenizer("abc .", words=["ab", "abc", ". ", "a"], max_length=16)
    pieces = [tokenizer.decode([token]) for token in tokenizer("abcab. a.b")["input_ids"]]
    assert pieces == ["abc", "ab", ". ", "a", ".", "b"]
    assert tokenizer.decode(tokenizer("abcab. a.b")["input_ids"]) == "abcab. a.b"
