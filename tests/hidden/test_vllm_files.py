"""States in the files of vLLM's connector, against a pass of the same model; the files are written as vLLM does."""

import fcntl
import threading
import time

import pytest
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from geoalign.errors import InputError
from geoalign.hidden.extract import extract_states
from geoalign.hidden.final_norm import final_norm, load_final_norm
from geoalign.hidden.tap import backbone_of
from geoalign.hidden.vllm_files import extraction_options, written_state

PROMPT, RESPONSE = [3, 7, 1], [4, 9, 2, 8]


@pytest.fixture(params=["llama", "gpt2"])
def model(request):
    torch.manual_seed(0)
    if request.param == "llama":
        shape = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2}
        made = LlamaForCausalLM(LlamaConfig(vocab_size=11, **shape))
    else:
        made = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_embd=16, n_layer=2, n_head=2, n_positions=32))
    norm = final_norm(backbone_of(made))
    torch.nn.init.normal_(norm.weight)  # so that it does something
    return made.eval()


def write(model, path, layers, *, last=True):
    """What the connector writes: the states before each layer, and before the final norm for the last."""
    backbone, tokens = backbone_of(model), torch.tensor([[*PROMPT, *RESPONSE]])
    before = {}
    handle = final_norm(backbone).register_forward_pre_hook(lambda _, inputs: before.update(last=inputs[0]))
    with torch.no_grad():
        found = backbone(tokens, output_hidden_states=True).hidden_states
    handle.remove()
    states = [before["last"] if layer == 2 else found[layer] for layer in layers]
    rows = tokens.shape[1] - (not last)
    stacked = torch.stack([state[0] for state in states], dim=1)[:rows].contiguous()
    save_file({"hidden_states": stacked, "token_ids": tokens[0, :rows].contiguous()}, path)
    return path


@pytest.mark.parametrize("position", ["predicting", "final", "mean", "anchor"])
@pytest.mark.parametrize(("layer", "layers"), [(1.0, [2]), (1, [1]), ([1.0, 0], [0, 2])])
def test_a_state_is_that_of_a_pass_of_the_model(model, tmp_path, position, layer, layers):
    answer = 1 if position == "anchor" else None
    options = extraction_options(layer, 2, tmp_path)
    asked = options["speculative_config"]["draft_model_config"]["hf_config"]["eagle_aux_hidden_state_layer_ids"]
    assert asked == layers
    path = write(model, tmp_path / "a.safetensors", asked)
    found = written_state(
        path, PROMPT, RESPONSE, position=position, layer=layer, depth=2, norm=final_norm(backbone_of(model)),
        answer_start=answer,
    )  # fmt: skip
    starts = None if answer is None else [answer]
    own = extract_states(
        model, [PROMPT], [RESPONSE], position=position, layer=layer, answer_starts=starts, batch_size=1
    )
    assert torch.allclose(found, own.states[0], atol=1e-6)
    assert not path.exists()


@pytest.mark.parametrize(("position", "tokens"), [("predicting", [1]), ("final", [2]), ("mean", [0, 2])])
def test_tokens_of_a_tool_are_left_out(model, tmp_path, position, tokens):
    own = torch.tensor([True, False, True, False])
    path = write(model, tmp_path / "a.safetensors", [1])
    found = written_state(path, PROMPT, RESPONSE, position=position, layer=1, depth=2, norm=None, own=own)
    with torch.no_grad():
        states = backbone_of(model)(torch.tensor([[*PROMPT, *RESPONSE]]), output_hidden_states=True).hidden_states[1]
    assert torch.allclose(found, states[0, len(PROMPT) :][tokens].mean(0), atol=1e-6)


def test_without_the_norm_the_last_state_is_another(model, tmp_path):
    arguments = {"position": "predicting", "layer": 1.0, "depth": 2}
    identity = torch.nn.Identity()
    path = write(model, tmp_path / "a.safetensors", [2])
    found = written_state(path, PROMPT, RESPONSE, norm=identity, **arguments)
    own = extract_states(model, [PROMPT], [RESPONSE], position="predicting", batch_size=1).states[0]
    assert not torch.allclose(found, own, atol=1e-2)
    with pytest.raises(InputError, match="norm: expected the model's final norm"):
        written_state(write(model, tmp_path / "b.safetensors", [2]), PROMPT, RESPONSE, norm=None, **arguments)


def test_of_a_generation_the_last_tokens_own_state_is_missing(model, tmp_path):
    norm = final_norm(backbone_of(model))
    own = extract_states(model, [PROMPT], [RESPONSE], position="predicting", batch_size=1).states[0]
    arguments = {"layer": 1.0, "depth": 2, "norm": norm}
    path = write(model, tmp_path / "a.safetensors", [2], last=False)
    assert torch.allclose(written_state(path, PROMPT, RESPONSE, position="predicting", **arguments), own, atol=1e-6)
    for position in ("final", "mean"):
        path = write(model, tmp_path / "a.safetensors", [2], last=False)
        with pytest.raises(InputError, match="inside columns"):
            written_state(path, PROMPT, RESPONSE, position=position, **arguments)


def test_a_file_that_is_still_being_written_is_waited_for(model, tmp_path):
    path, lock = tmp_path / "a.safetensors", tmp_path / "a.safetensors.lock"
    held = lock.open("w")
    fcntl.flock(held, fcntl.LOCK_EX)

    def writer():
        time.sleep(0.2)
        write(model, path, [1])
        held.close()

    thread = threading.Thread(target=writer)
    thread.start()
    found = written_state(path, PROMPT, RESPONSE, position="final", layer=1, depth=2, norm=None)
    thread.join()
    assert found.shape == (16,)
    assert not lock.exists()


def test_what_does_not_fit_is_an_error(model, tmp_path):
    arguments = {"position": "final", "layer": 1, "depth": 2, "norm": None}
    with pytest.raises(InputError, match="expected hidden_states and token_ids of vLLM's connector"):
        written_state(tmp_path / "none", PROMPT, RESPONSE, **arguments)
    with pytest.raises(InputError, match="got other ones"):
        written_state(write(model, tmp_path / "a", [1]), PROMPT, [4, 9, 2, 7], **arguments)
    with pytest.raises(InputError, match="expected states after 1 layers, got 2"):
        written_state(write(model, tmp_path / "b", [0, 1]), PROMPT, RESPONSE, **arguments)


def test_the_final_norm_of_a_checkpoint(model, tmp_path):
    model.save_pretrained(tmp_path)
    loaded = load_final_norm(tmp_path)
    states = torch.randn(3, 16)
    with torch.no_grad():
        assert torch.equal(loaded(states), final_norm(backbone_of(model))(states))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"expected the weights model.safetensors"):
        load_final_norm(tmp_path)


@pytest.mark.parametrize("text", ["{}", '{"model_type": "unheard_of"}', "{"])
def test_a_config_of_no_known_architecture(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json: expected an architecture of transformers"):
        load_final_norm(tmp_path)
