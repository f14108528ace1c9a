"""The prompts of a run: which are short enough, how many a generation takes, and the order in which they are used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from trl import GRPOConfig

from geoalign.errors import ConfigError
from geoalign.lab.tasks.base import Demonstration, Problem
from geoalign.lab.tasks.chat import rendered, token_ids
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.shown import shown

_ACCUMULATION = "gradient_accumulation_steps"
# The options that the shape of a generation is reckoned from; the first of them that is wrong is the one at fault.
_COUNTS: tuple[str, ...] = ("per_device_train_batch_size", _ACCUMULATION, "steps_per_generation", "num_iterations")
_COUNTS = (*_COUNTS, "generation_batch_size", "num_generations", "max_completion_length")

_Item = TypeVar("_Item", Problem, Demonstration)


def prompt_lengths(items: Sequence[_Item], tokenizer: Any, options: Mapping[str, Any]) -> list[int]:
    """Tokens of each item's prompt in the chat template."""
    if not items:
        return []
    texts = [rendered(item.prompt, tokenizer, options) for item in items]
    return [len(ids) for ids in token_ids(texts, tokenizer)]


def short_enough(
    items: Sequence[_Item], limit: int | None, tokenizer: Any, options: Mapping[str, Any], *, what: str
) -> tuple[list[_Item], str | None]:
    """The items whose prompts have at most `limit` tokens, in their order, and a line on how many are left out."""
    if limit is None or not items:
        return list(items), None
    lengths = prompt_lengths(items, tokenizer, options)
    kept = [item for item, length in zip(items, lengths, strict=True) if length <= limit]
    if not kept:
        raise ConfigError(
            f"max_prompt_length: expected a limit that some of the {len(items)} {what} keep, got {limit}: the shortest "
            f"has {min(lengths)} tokens"
        )
    left_out = len(items) - len(kept)
    if not left_out:
        return kept, None
    return kept, f"{left_out} of {len(items)} {what} left out: more than max_prompt_length = {limit} tokens"


@dataclass(frozen=True)
class GenerationShape:
    """One generation batch: prompts, rollouts of each, their longest length in tokens, updates made on the batch."""

    prompts: int
    samples: int
    longest: int
    updates: int


def generation_shape(options: GRPOConfig, locations: Locations = NOWHERE) -> GenerationShape:
    """The shape of a generation batch; updates are steps_per_generation x num_iterations / accumulation.

    Refused where the accumulation does not divide the micro-batches, so that one update would span two generations.
    """
    counts = {name: getattr(options, name) for name in _COUNTS}
    for name, value in counts.items():
        if value is None or value < 1:
            raise ConfigError(f"{locations.prefix(f'grpo.{name}')}grpo.{name}: expected at least 1, got {shown(value)}")
    rollouts, samples = counts["generation_batch_size"], counts["num_generations"]
    micro_batches, accumulated = options.num_iterations * counts["steps_per_generation"], counts[_ACCUMULATION]
    if micro_batches % accumulated:
        raise ConfigError(
            f"{locations.prefix(f'grpo.{_ACCUMULATION}')}grpo.{_ACCUMULATION}: expected a divisor of "
            f"steps_per_generation x num_iterations = {micro_batches}, got {accumulated}"
        )
    return GenerationShape(rollouts // samples, samples, counts["max_completion_length"], micro_batches // accumulated)


def plan_prompts(
    options: GRPOConfig, shape: GenerationShape, problems: int, locations: Locations = NOWHERE
) -> tuple[list[int], int]:
    """The problem in each row of the training data, epoch after epoch as they are used, and how many updates they make.

    TRL's own sampler shuffles each epoch with a generator that starts anew on resumption: after a kill, a run of
    several epochs would see other prompts. Here every prompt's row is fixed from the start; each epoch is another
    permutation (`shuffle_dataset`), and its last incomplete batch is left out.
    """
    per_generation, updates = shape.prompts, shape.updates
    if problems < per_generation:
        raise ConfigError(
            f"task: expected at least {per_generation} training problems, as one generation batch holds "
            f"(grpo.generation_batch_size / grpo.num_generations), got {problems}"
        )
    per_epoch = problems // per_generation
    max_steps, key = options.max_steps, "grpo.num_train_epochs"
    if max_steps <= 0:
        max_steps = math.ceil(options.num_train_epochs * per_epoch) * updates
    if max_steps < 1:
        raise ConfigError(f"{locations.prefix(key)}{key}: expected at least one update, got {shown(max_steps)}")
    generations = math.ceil(max_steps / updates)
    shuffle = options.shuffle_dataset is not False
    generator = torch.Generator().manual_seed(options.seed)
    order: list[int] = []
    while len(order) < generations * per_generation:
        epoch = torch.randperm(problems, generator=generator).tolist() if shuffle else list(range(problems))
        order.extend(epoch[: per_epoch * per_generation])
    return order[: generations * per_generation], max_steps
