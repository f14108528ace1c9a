"""Hidden states after any decoder layer, from one pass and without keeping those of all layers."""

import pytest
import torch
from torch import nn
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from geoalign.errors import InputError
from geoalign.hidden import BackboneTap, backbone_of, extract_states
from geoalign.hidden.layers import backbone_layers, wanted_layers
from geoalign.settings.hidden import layer_numbers

SHAPE = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}
HEADS = {"num_key_value_heads": 1, "head_dim": 8}
MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=3, n_head=2, **ENDS)),
    "gpt_neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SHAPE, **ENDS)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(**SHAPE, **HEADS)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, **HEADS)),
    # As many experts as layers: two kinds of lists of three.
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**SHAPE, **HEADS, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=8)
    ),
}
IDS = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])


@pytest.mark.parametrize("name", MODELS)
def test_states_are_those_of_output_hidden_states(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad(), BackboneTap(model, layer=[3, 0, 2, 1]) as tap:
        expected = model(input_ids=IDS, output_hidden_states=True).hidden_states
    [found] = tap.states
    assert torch.equal(found, torch.cat([expected[layer] for layer in (3, 0, 2, 1)], dim=-1))
    assert len(backbone_layers(backbone_of(model))) == 3


def test_each_layer_is_selected_as_it_comes_and_rows_are_counted_once():
    model, seen = MODELS["qwen3"]().eval(), []

    def select(states, first):
        seen.append((tuple(states.shape), first))
        return states[:, -1]

    with torch.no_grad(), BackboneTap(model, select, layer=[1, 1.0]) as tap:
        model(input_ids=IDS)
        model(input_ids=IDS[:1])
    assert [tuple(states.shape) for states in tap.states] == [(2, 32), (1, 32)]
    assert seen == [((2, 4, 16), 0)] * 2 + [((1, 4, 16), 2)] * 2
    model(input_ids=IDS)
    assert len(tap.states) == 2
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_last_layer_by_any_name_is_the_default_bit_for_bit():
    model = MODELS["qwen3"]().eval()
    prompts, responses = [[5, 6, 7], [8]], [[1, 2], [3, 4, 5, 6]]
    default = extract_states(model, prompts, responses).states
    for layer in (1.0, 3, [3], [1.0], 0.9):
        assert torch.equal(extract_states(model, prompts, responses, layer=layer).states, default)
    several = extract_states(model, prompts, responses, layer=[1, 3]).states
    assert torch.equal(several[:, 16:], default)
    assert torch.equal(several[:, :16], extract_states(model, prompts, responses, layer=1).states)


@pytest.mark.parametrize(
    ("layer", "numbers"),
    [(0, (0,)), (1, (1,)), (1.0, (30,)), (0.5, (15,)), (1 / 3, (10,)), (0.001, (1,)), ([20, 0.5], (20, 15))],
)
def test_numbers_and_shares(layer, numbers):
    # Of 30 layers: a share s is layer round(30 s), at least 1.
    assert layer_numbers(layer, 30) == numbers


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (31, "expected at most 30, the model's depth, got 31"),
        (-1, r"expected a layer's number from 0 or a share of the depth in \(0, 1\], or a list of these, got -1"),
        (0.0, "got 0.0"),
        (float("nan"), "got nan"),
        ("0.5", "got '0.5'"),
        ([], r"got \[\]"),
        ([3, False], r"got \[3, False\]"),
        ([15, 0.5], r"expected different layers, got layer 15 twice in \[15, 0.5\]"),
    ],
)
def test_what_is_no_layer_is_named(layer, words):
    with pytest.raises(InputError, match=f"hidden_layer: .*{words}"):
        layer_numbers(layer, 30)


class Backbone(nn.Module):
    """`lists` lists of three linear layers."""

    def __init__(self, lists):
        super().__init__()
        self.config = LlamaConfig(**SHAPE)
        self.towers = nn.ModuleDict({f"tower{n}": nn.ModuleList(nn.Linear(2, 2) for _ in "abc") for n in range(lists)})


@pytest.mark.parametrize(("lists", "got"), [(0, "got none"), (2, "got towers.tower0, towers.tower1")])
def test_layers_that_cannot_be_found_are_refused_by_name(lists, got):
    with pytest.raises(InputError, match=f"hidden_layer: expected one list of 3 decoder layers in Backbone, {got}"):
        wanted_layers(Backbone(lists), 2)
    assert wanted_layers(Backbone(lists), 1.0) == (None,)
    assert wanted_layers(Backbone(1), [3, 2]) == (None, 2)


def test_a_pass_that_calls_no_hook_is_refused():
    model = MODELS["qwen3"]().eval()
    with BackboneTap(model, layer=2) as tap:
        for layer in model.model.layers:
            layer._forward_hooks.clear()
        with pytest.raises(InputError, match="hidden_layer: expected a state after layer 2 in every pass, got none"):
            model(input_ids=IDS)
    with pytest.raises(InputError, match=r"model: expected passes .* of Qwen3Model, got none .compiled"):
        _ = tap.states
