"""Rollouts of one prompt share its keys and values: K responses cost one pass over the prompt, not K."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import transformers
from packaging.version import Version
from torch import Tensor
from transformers import DynamicCache

# Fewer tokens than this are not worth a pass of their own.
_SHORTEST = 16
# The option of `generate` that takes a cache. transformers gave it another name, and warns of the old one.
_CACHE_OPTION = "cache" if Version(transformers.__version__) >= Version("5.24") else "past_key_values"


def generate_sharing_prompts(
    generate: Callable[..., Any], model: Any, *, input_ids: Tensor, attention_mask: Tensor, **options: Any
) -> Any:
    """`generate` of transformers, after one pass over each of the prompts that stand several times in a row.

    The responses are the same up to rounding. A model whose cache cannot be repeated by rows, and prompts that are
    short or all different, go to `generate` as they are. `input_ids` [b, t] are left-padded.
    """
    repeats = _repeats(input_ids, attention_mask)
    if repeats > 1 and input_ids.size(1) > _SHORTEST and _makes_its_own_cache(options):
        cache = _prompt_cache(model, input_ids[::repeats], attention_mask[::repeats])
        if cache is not None:
            cache.batch_repeat_interleave(repeats)
            options[_CACHE_OPTION] = cache
    return generate(input_ids=input_ids, attention_mask=attention_mask, **options)


@contextmanager
def sharing_prompts(model: Any) -> Iterator[None]:
    """Has `model.generate` share prompts for the block, for callers that are not ours, such as TRL."""
    model.generate = partial(generate_sharing_prompts, model.generate, model)
    try:
        yield
    finally:
        del model.generate  # the class's own again


def _repeats(input_ids: Tensor, attention_mask: Tensor) -> int:
    """How many equal rows stand together, the same number of each prompt; 1 where that is not so."""
    rows = torch.cat([input_ids, attention_mask.to(input_ids.dtype)], dim=1)
    _, counts = torch.unique_consecutive(rows, dim=0, return_counts=True)
    repeats = int(counts.min())
    # A prompt that was drawn twice in a row is a run of twice the length.
    return repeats if bool((counts % repeats == 0).all()) else 1


def _makes_its_own_cache(options: dict[str, Any]) -> bool:
    """Whether `generate` is left to make a cache of the usual kind, by its options and its generation config."""
    config = options.get("generation_config")

    def chosen(name: str) -> Any:
        return options.get(name, getattr(config, name, None))

    names_a_cache = any(chosen(name) is not None for name in ("cache", "past_key_values", "cache_implementation"))
    return not names_a_cache and chosen("use_cache") is not False


def _prompt_cache(model: Any, input_ids: Tensor, attention_mask: Tensor) -> DynamicCache | None:
    """Keys and values of all prompt tokens but the last, with which `generate` begins."""
    positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        output = model(
            input_ids=input_ids[:, :-1],
            attention_mask=attention_mask[:, :-1],
            position_ids=positions[:, :-1],
            use_cache=True,
            logits_to_keep=1,
        )
    cache = output.past_key_values
    return cache if type(cache) is DynamicCache else None
