"""A rollout server on the CPU: a Hugging Face model, sampled token by token, with weights that the trainer sends."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM
from verl.utils.ray_utils import auto_await  # noqa: F401  (imports verl, which registers the platform)
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput


class CPUServer:
    """One model that answers token requests; it can be paused, and then returns what it has."""

    def __init__(self, path: str, longest: int, end: int) -> None:
        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
        self.longest, self.end = longest, end
        self.step = 0
        self.paused = False
        self.asked: dict[tuple[int, ...], int] = {}

    async def generate(self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **rest: Any):
        """Samples one response; the n-th of a prompt under the same weights is always the same."""
        while self.paused:
            await asyncio.sleep(0.05)
        prompt = tuple(prompt_ids)
        number = self.asked[prompt] = self.asked.get(prompt, -1) + 1
        text = f"{prompt} {self.step} {number}".encode()
        draws = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text).digest()[:6], "big"))
        temperature = sampling_params.get("temperature", 1.0)
        tokens: list[int] = []
        logprobs: list[float] = []
        reason = "completed"
        limit = sampling_params.get("max_tokens") or self.longest
        for _ in range(min(limit, self.longest)):
            if self.paused:
                reason = "aborted"
                break
            with torch.no_grad():
                logits = self.model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, -1]
            spread = torch.log_softmax(logits / max(temperature, 1e-6), 0)
            token = int(torch.multinomial(spread.exp(), 1, generator=draws)) if temperature else int(logits.argmax())
            tokens.append(token)
            logprobs.append(float(spread[token]))
            if token == self.end:
                break
            await asyncio.sleep(0)
        return TokenOutput(
            token_ids=tokens, log_probs=logprobs, stop_reason=reason, extra_fields={"global_steps": self.step}
        )

    async def update(self, weights: dict[str, torch.Tensor], step: int | None) -> None:
        """Takes new weights."""
        self.model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=False)
        self.step = self.step if step is None else step
        self.asked = {}

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        self.paused = True

    async def resume_generation(self) -> None:
        self.paused = False

    async def nothing(self) -> None:
        return None

    sleep = wake_up = clear_kv_cache = release_kv_cache = resume_kv_cache = nothing


def server_name(rank: int) -> str:
    return f"cpu_server_{rank}"


class CPUReplica(RolloutReplica):
    """One `CPUServer` for all workers of the replica."""

    async def launch_servers(self) -> None:
        from verl.utils.config import omega_conf_to_dataclass

        tokenizer = omega_conf_to_dataclass(self.model_config).tokenizer
        server = (
            ray.remote(CPUServer)
            .options(name=server_name(self.replica_rank), max_concurrency=100, num_cpus=0)
            .remote(self.model_config.path, self.config.response_length, tokenizer.eos_token_id)
        )
        await server.nothing.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = server_name(self.replica_rank)


class CPUAdapter(BaseRollout):
    """The trainer's end: every worker takes part in gathering the weights, one of a replica sends them."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1, **rest: Any) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = max(replica_rank, 0)
        self.is_leader_rank = device_mesh is None or torch.distributed.get_rank() == 0

    async def resume(self, tags: list[str]) -> None:
        return None

    async def release(self) -> None:
        return None

    async def update_weights(self, weights: Any, global_steps: int | None = None, **rest: Any) -> None:
        held = {}
        if hasattr(weights, "__aiter__"):
            async for name, tensor in weights:
                held[name] = tensor.clone()
        else:
            for name, tensor in weights:
                held[name] = tensor.clone()
        if self.is_leader_rank:
            await ray.get_actor(server_name(self.replica_rank)).update.remote(held, global_steps)
