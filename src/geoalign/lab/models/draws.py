"""Sampling in which each response has a random stream of its own: what is drawn depends on its name alone.

torch's generator is one stream for a whole batch, so a response would depend on everything drawn before it and beside
it. Here response (set, id, sample) has its own uniform numbers u_1, u_2, ..., and token t is the first one at which the
cumulated probability exceeds u_t (the inverse of the distribution function): one number a token, whatever stands in the
batch beside it and whatever was done before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessor

from geoalign.errors import InputError


def seed_of(seed: int, name: str, problem: str, sample: int) -> int:
    """The seed of one response, from 0 to 2^63 - 1: a hash of the evaluation's seed and name and of the response's."""
    key = json.dumps([seed, name, problem, sample]).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") >> 1


def uniforms(seeds: Sequence[int], count: int) -> Tensor:
    """[len(seeds), count] numbers in [0, 1), each row of its own seed; a longer row begins with a shorter one."""
    return torch.stack(
        [torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in seeds]
    )


def drawn_tokens(scores: Tensor, draws: Tensor, temperature: float) -> Tensor:
    """[batch] tokens: the first one at which the cumulated softmax(scores / temperature) exceeds the draw in [0, 1).

    In float64: the float32 sum over a large vocabulary is off by more than small probabilities.
    """
    cumulated = torch.softmax(scores.double() / temperature, dim=-1).cumsum(dim=-1)
    total = cumulated[:, -1:]
    if not bool(total.isfinite().all()):
        raise InputError("logits: expected numbers, got NaN from the model; try --set dtype=float32 or bfloat16")
    # Below the total even after rounding: the search ends within the vocabulary, before tokens of probability 0.
    target = torch.minimum(draws[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulated, target, right=True).squeeze(-1)


class OwnDraws(LogitsProcessor):
    """Makes `generate` without sampling take the token that each row's own draw says: [batch, max_new_tokens]."""

    def __init__(self, draws: Tensor, temperature: float) -> None:
        self._draws = draws
        self._temperature = temperature
        self._step = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """[batch, vocabulary] scores under which the drawn token is the likeliest."""
        tokens = drawn_tokens(scores, self._draws[:, self._step].to(scores.device), self._temperature)
        self._step += 1
        only = torch.full_like(scores, -torch.inf)
        return only.scatter_(1, tokens[:, None], 0.0)
