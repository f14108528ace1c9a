"""New tokens after prompts by transformers' generate, and where each response ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from geoalign.errors import InputError

# The likeliest token each time, whatever the model's own generation settings say.
GREEDY = {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}


def sampled(temperature: float) -> dict[str, Any]:
    """Options of a draw from the whole vocabulary, by torch's own generator."""
    return {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}


def new_tokens(
    model: Any, prompts: Sequence[Sequence[int]], *, pad: int, max_new_tokens: int, options: dict[str, Any]
) -> Tensor:
    """[batch, at most max_new_tokens] tokens after each prompt, padded on the right.

    Args:
        model: a causal language model of transformers, on one device.
        prompts: tokens of each prompt; shorter ones are padded on the left.
        options: of `generate`, such as `GREEDY`.
    """
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(row)) + [*row] for row in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts], device=model.device)
    output = model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=max_new_tokens,
        pad_token_id=pad,
        use_cache=True,
        # Some models come with a penalty set, which would change what is drawn.
        repetition_penalty=1.0,
        **options,
    )
    return output[:, width:].cpu()


def response_length(tokens: Tensor, ends: frozenset[int]) -> tuple[int, bool]:
    """Tokens up to and with the first end token, and whether there is one."""
    for number, token in enumerate(tokens.tolist(), start=1):
        if token in ends:
            return number, True
    return len(tokens), False


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a response: the tokenizer's, and those that the model's generation settings name besides."""
    settings = getattr(model, "generation_config", None)
    named = getattr(settings, "eos_token_id", None)
    ids = named if isinstance(named, list | tuple) else [named]
    return frozenset(int(token) for token in (*ids, tokenizer.eos_token_id) if token is not None)


def pad_token(tokenizer: Any) -> int:
    """The padding token, or the end token where there is none.

    Raises:
        InputError: the tokenizer has neither.
    """
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    if pad is None:
        raise InputError("tokenizer: expected a padding or an end token, got none")
    return int(pad)
