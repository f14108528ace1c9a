"""vLLM's `LLM` and `SamplingParams`, as much of them as reading states takes: files as its connector writes them."""

from types import ModuleType, SimpleNamespace
from typing import ClassVar

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from geoalign.hidden.final_norm import final_norm
from geoalign.hidden.tap import backbone_of


class LLM:
    """Reads prompts with transformers; writes the states after the layers asked for, the last before its norm."""

    made: ClassVar[dict] = {}

    def __init__(self, *, model, dtype, trust_remote_code, enable_chunked_prefill, speculative_config,
                 kv_transfer_config, **others):  # fmt: skip
        type(self).made = others
        assert (enable_chunked_prefill, speculative_config["method"]) == (False, "extract_hidden_states")
        assert speculative_config["num_speculative_tokens"] == 1
        assert kv_transfer_config["kv_connector"] == "ExampleHiddenStatesConnector"
        assert kv_transfer_config["kv_role"] == "kv_producer"
        self.folder = kv_transfer_config["kv_connector_extra_config"]["shared_storage_path"]
        self.layers = speculative_config["draft_model_config"]["hf_config"]["eagle_aux_hidden_state_layer_ids"]
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
        self.requests = 0

    def generate(self, prompts, params, use_tqdm):
        assert params.max_tokens == 1
        return [SimpleNamespace(kv_transfer_params=self._read(prompt["prompt_token_ids"])) for prompt in prompts]

    def _read(self, ids):
        backbone, tokens, before = backbone_of(self.model), torch.tensor([ids]), {}
        handle = final_norm(backbone).register_forward_pre_hook(lambda _, inputs: before.update(last=inputs[0]))
        with torch.no_grad():
            found = list(backbone(tokens, output_hidden_states=True).hidden_states)
        handle.remove()
        found[-1] = before["last"]
        self.requests += 1
        path = f"{self.folder}/{self.requests}.safetensors"
        states = torch.stack([found[layer][0] for layer in self.layers], dim=1)
        save_file({"hidden_states": states.contiguous(), "token_ids": tokens[0]}, path)
        return {"hidden_states_path": path}


def module():
    """The module `vllm` with these."""
    made = ModuleType("vllm")
    made.LLM, made.SamplingParams = LLM, SimpleNamespace
    return made
