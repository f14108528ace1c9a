"""Evaluations by the engine with which a trainer generates its rollouts: vLLM, colocated or as a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# What an evaluation sets on TRL's `VLLMGeneration` for as long as it takes.
_WHOLE_VOCABULARY = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


def engine_of(trainer: Any) -> TrainerEngine | None:
    """The engine of a trainer of TRL that generates with vLLM; None for one that generates by transformers."""
    return None if getattr(trainer, "vllm_generation", None) is None else TrainerEngine(trainer)


class TrainerEngine:
    """Generates under the trainer's current weights, with sampling settings of its own.

    Every process has to call it, with equally many prompts: a server answers all processes in one request.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def __call__(self, prompts: Sequence[list[int]], *, temperature: float, max_new_tokens: int) -> list[list[int]]:
        """The new tokens after each prompt, in order, with the end token where one was drawn.

        Args:
            prompts: token ids; a prompt may stand there several times, for several samples.
            temperature: 0 takes the likeliest token each time.
        """
        trainer = self._trainer
        engine = trainer.vllm_generation
        # As TRL does before its own generation: the engine holds a copy of the weights, of some earlier step.
        if trainer._last_loaded_step != trainer.state.global_step:
            engine.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step
        with _set(engine, {**_WHOLE_VOCABULARY, "temperature": temperature, "max_completion_length": max_new_tokens}):
            generated = engine.generate(prompts=list(prompts), images=None, num_generations=1)
        return [[int(token) for token in ids] for ids in generated[1]]


@contextmanager
def _set(target: Any, values: dict[str, Any]) -> Iterator[None]:
    before = {name: getattr(target, name) for name in values}
    try:
        for name, value in values.items():
            setattr(target, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(target, name, value)
