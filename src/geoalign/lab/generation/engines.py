"""What generates the responses of an evaluation: transformers' generate, or vLLM's LLM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import torch
from transformers import LogitsProcessorList

from geoalign.errors import ConfigError
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.generation.draws import OwnDraws, uniforms
from geoalign.lab.generation.models import EvaluatedModel
from geoalign.lab.generation.sampling import GREEDY, end_tokens, new_tokens, pad_token, response_length
from geoalign.lab.models.models import initial_model


@dataclass(frozen=True)
class Generated:
    """One response: its text without special tokens, its length with its end, and whether it reached the limit."""

    text: str
    tokens: int
    truncated: bool


class Engine(Protocol):
    """A loaded model; a context manager that lets go of it."""

    def generate(self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], max_new_tokens: int) -> list[Generated]:
        """One response to each prompt of tokens; each draws from its own seed, or is the likeliest at temperature 0."""

    def __enter__(self) -> Engine: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


def open_engine(model: EvaluatedModel, tokenizer: Any, config: EvaluateConfig) -> Engine:
    """Loads a model into the engine of the settings.

    Raises:
        ConfigError: the model cannot be loaded, or the device is not there.
        MissingExtraError: vLLM is not installed.
    """
    if config.engine == "vllm":
        from geoalign.lab.generation.vllm import VLLMEngine

        return VLLMEngine(model, tokenizer, config)
    return TransformersEngine.load(model, tokenizer, config)


def settled(config: EvaluateConfig) -> tuple[str | None, str]:
    """Device (None: vLLM's own) and type of the weights on this machine."""
    if config.engine == "vllm":
        return None, "bfloat16" if config.dtype == "auto" else config.dtype
    device = config.device or (
        str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    )
    dtype = config.dtype
    if dtype == "auto":
        dtype = "float32" if device.partition(":")[0] == "cpu" else "bfloat16"
    return device, dtype


class TransformersEngine:
    """transformers' generate, a batch at a time, with a stream of draws for each response.

    Args:
        model: a causal language model on its device.
        tokenizer: its tokenizer.
        temperature: 0: the likeliest token each time.
    """

    def __init__(self, model: Any, tokenizer: Any, temperature: float) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._temperature = temperature
        self._pad = pad_token(tokenizer)
        self._ends = end_tokens(model, tokenizer)

    @classmethod
    def load(cls, model: EvaluatedModel, tokenizer: Any, config: EvaluateConfig) -> TransformersEngine:
        """The engine of a model in a folder or on the hub.

        Raises:
            ConfigError: it cannot be loaded, or the device is not there.
        """
        device, dtype = settled(config)
        try:
            loaded, _ = initial_model(model.settings(dtype=dtype), alphabet=None, seed=0)
        except ConfigError as error:
            raise ConfigError(str(error).replace("model.path", "MODEL", 1)) from error
        try:
            return cls(loaded.to(device), tokenizer, config.temperature)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device: expected one of this machine, got {device!r}: {error}") from error

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], max_new_tokens: int) -> list[Generated]:
        """One response to each prompt of tokens.

        Raises:
            ConfigError: so many at a time do not fit into the device's memory.
        """
        options: dict[str, Any] = dict(GREEDY)
        if self._temperature > 0:
            draws = OwnDraws(uniforms(seeds, max_new_tokens), self._temperature)
            options["logits_processor"] = LogitsProcessorList([draws])
        try:
            tokens = new_tokens(self._model, prompts, pad=self._pad, max_new_tokens=max_new_tokens, options=options)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"batch_size: expected as many responses as fit into memory, got {len(prompts)} of up to "
                f"{max_new_tokens} tokens: start with a smaller one in another --output ({error})"
            ) from error
        found = []
        for row in tokens:
            length, ended = response_length(row, self._ends)
            text = self._tokenizer.decode(row[:length], skip_special_tokens=True)
            found.append(Generated(text, length, not ended))
        return found

    def __enter__(self) -> TransformersEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._model = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
