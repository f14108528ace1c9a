"""A Hugging Face model on the CPU, sampled token by token, with weights that the trainer sends. Starts without verl."""

from __future__ import annotations

import asyncio
import hashlib
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoModelForCausalLM


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
        # What verl reads of its own `TokenOutput`.
        return SimpleNamespace(
            token_ids=tokens,
            log_probs=logprobs,
            routed_experts=None,
            stop_reason=reason,
            num_preempted=None,
            extra_fields={"global_steps": self.step},
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
