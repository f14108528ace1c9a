"""vLLM's `LLM` and `SamplingParams`, as much of them as reading states takes: files as its connector writes them."""

import fcntl
import os
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from geoalign.hidden.final_norm import final_norm
from geoalign.hidden.tap import backbone_of

END = 2


class LLM:
    """Reads and continues prompts with transformers, in this process. With the connector's options it writes states of
    the prompts after the layers asked for, the last before its norm: in the steps after the answers, as vLLM 0.31, and
    with the locks held until then.
    """

    made: ClassVar[dict] = {}

    def __init__(self, *, model, dtype="float32", trust_remote_code, enable_chunked_prefill=True,
                 enable_prefix_caching=True, speculative_config=None, kv_transfer_config=None, max_model_len=64,
                 max_num_batched_tokens=None, **others):  # fmt: skip
        type(self).made = others
        self.folder = None
        if speculative_config is not None:
            assert (enable_chunked_prefill, enable_prefix_caching) == (False, False)
            assert max_num_batched_tokens is None or max_num_batched_tokens >= max_model_len
            assert speculative_config["method"] == "extract_hidden_states"
            assert speculative_config["num_speculative_tokens"] == 1
            assert kv_transfer_config["kv_connector"] == "ExampleHiddenStatesConnector"
            assert kv_transfer_config["kv_role"] == "kv_producer"
            self.folder = kv_transfer_config["kv_connector_extra_config"]["shared_storage_path"]
            self.layers = speculative_config["draft_model_config"]["hf_config"]["eagle_aux_hidden_state_layer_ids"]
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
        self.longest = 64 if max_model_len is None else max_model_len
        self.requests = 0
        self.unwritten = []
        self.draws = torch.Generator().manual_seed(0)
        runner = SimpleNamespace(model=SimpleNamespace(load_weights=self._load))
        self.llm_engine = SimpleNamespace(
            step=self._step,
            engine_core=SimpleNamespace(engine_core=SimpleNamespace(scheduler=self)),
            model_config=SimpleNamespace(max_model_len=self.longest),
            model_executor=SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner)),
        )

    def generate(self, prompts, sampling_params, use_tqdm):
        return [self._answer(prompt["prompt_token_ids"], sampling_params) for prompt in prompts]

    def has_requests(self):
        return bool(self.unwritten)

    def reset_prefix_cache(self):
        pass

    def _answer(self, prompt, params):
        assert 0 < len(prompt) < self.longest
        self.requests += 1
        path = f"{self.folder}/{self.requests}.safetensors"
        if self.folder is not None:
            lock = os.open(f"{path}.lock", os.O_CREAT | os.O_WRONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.unwritten.append((path, lock, prompt))
        tokens, logprobs = [], []
        while len(tokens) < params.max_tokens and tokens[-1:] != [END] and params.max_tokens > 1:
            with torch.no_grad():
                logits = self.model(torch.tensor([[*prompt, *tokens]])).logits[0, -1] / params.temperature
            tokens.append(int(torch.multinomial(logits.softmax(0), 1, generator=self.draws)))
            found = SimpleNamespace(logprob=float(logits.log_softmax(0)[tokens[-1]]), rank=1)
            logprobs.append({tokens[-1]: found})
        answer = SimpleNamespace(token_ids=tokens, logprobs=logprobs)
        return SimpleNamespace(
            prompt_token_ids=prompt, outputs=[answer], kv_transfer_params={"hidden_states_path": path}
        )

    def _load(self, weights):
        own = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, value in weights:
                own[name].copy_(value)

    def _step(self):
        path, lock, ids = self.unwritten.pop(0)
        backbone, tokens, before = backbone_of(self.model), torch.tensor([ids]), {}
        handle = final_norm(backbone).register_forward_pre_hook(lambda _, inputs: before.update(last=inputs[0]))
        with torch.no_grad():
            found = list(backbone(tokens, output_hidden_states=True).hidden_states)
        handle.remove()
        found[-1] = before["last"]
        states = torch.stack([found[layer][0] for layer in self.layers], dim=1)
        save_file({"hidden_states": states.contiguous(), "token_ids": tokens[0]}, path)
        os.close(lock)


def module():
    """The module `vllm` with these."""
    made = ModuleType("vllm")
    made.LLM, made.SamplingParams = LLM, SimpleNamespace
    return made
