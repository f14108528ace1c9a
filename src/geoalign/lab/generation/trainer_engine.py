"""The vLLM with which a trainer of TRL generates its rollouts, colocated or as a server, as an engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from geoalign.lab.generation.engine import Generated, end_tokens, generated

# What an evaluation sets on TRL's `VLLMGeneration` for as long as it takes.
_WHOLE_VOCABULARY = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


def engine_of(trainer: Any) -> TrainerEngine | None:
    """The engine of a trainer of TRL that generates with vLLM; None for one that generates by transformers."""
    return None if getattr(trainer, "vllm_generation", None) is None else TrainerEngine(trainer)


class TrainerEngine:
    """Generates under the trainer's current weights, with sampling settings of its own; vLLM draws, not our streams.

    Every process has to call it, with equally many prompts: a server answers all processes in one request.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float, max_new_tokens: int
    ) -> list[Generated]:
        """One response to each prompt of tokens, as `Engine`; `seeds` are not used, because TRL passes none on."""
        trainer = self._trainer
        engine = trainer.vllm_generation
        # As TRL does before its own generation: the engine holds a copy of the weights, of some earlier step.
        if trainer._last_loaded_step != trainer.state.global_step:
            engine.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step
        with _set(engine, {**_WHOLE_VOCABULARY, "temperature": temperature, "max_completion_length": max_new_tokens}):
            _, tokens, *_ = engine.generate(prompts=[[*ids] for ids in prompts], images=None, num_generations=1)
        tokenizer = trainer.processing_class
        ends = end_tokens(trainer.model, tokenizer)
        return [generated([int(token) for token in ids], ends, tokenizer) for ids in tokens]


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
