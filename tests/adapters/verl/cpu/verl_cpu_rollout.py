"""A rollout server on the CPU in vLLM's place, and the trainer's end of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ray
import torch
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.utils.ray_utils import auto_await  # noqa: F401  (imports verl, which registers the platform)
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica
from verl_cpu_server import CPUServer


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


class InParts(SingleTurnAgentLoop):
    """verl's single turn; one of more than eight tokens is two outputs, the first in the prompt of the second."""

    async def run(self, sampling_params: dict[str, Any], **options: Any) -> list[Any]:
        whole, parts = await super().run(sampling_params, **options), []
        for start, end in pairwise(sorted({0, min(8, len(whole.response_ids)), len(whole.response_ids)})):
            held = ("response_ids", "response_mask", "response_logprobs")
            changes = {name: getattr(whole, name)[start:end] for name in held}
            changes |= {"prompt_ids": whole.prompt_ids + whole.response_ids[:start]}
            parts.append(whole.model_copy(update={**changes, "extra_fields": dict(whole.extra_fields)}))
        return parts
