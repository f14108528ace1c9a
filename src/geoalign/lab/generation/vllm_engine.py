"""vLLM's offline engine: all responses of a part at once, each with a seed of its own."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from geoalign.errors import ConfigError, InputError, MissingExtraError
from geoalign.lab.generation.engine import Generated
from geoalign.lab.generation.models import EvaluatedModel


class VLLMEngine:
    """vLLM's `LLM` with `SamplingParams(seed=...)` for every response; a context manager that frees it.

    Temperature and length are the only settings of the sampling: of `SamplingParams`, not of the model's own generation
    settings, come the others, so that the whole vocabulary is drawn from. The text is decoded here, as of transformers.

    Args:
        seed: of the engine itself; every response has its own.
        options: further ones of `LLM`.

    Raises:
        MissingExtraError: vLLM is not installed.
        ConfigError: it does not load the model with these settings.
    """

    def __init__(
        self, model: EvaluatedModel, tokenizer: Any, *, dtype: str, seed: int, options: Mapping[str, Any]
    ) -> None:
        try:
            from vllm import LLM, SamplingParams
        except ImportError as error:
            raise MissingExtraError(f"engine=vllm needs vLLM: pip install vllm ({error})") from error
        self._params = SamplingParams
        self._tokenizer = tokenizer
        try:
            self._llm: Any = LLM(
                model=model.path,
                revision=model.revision,
                tokenizer_revision=model.revision,
                dtype=dtype,
                seed=seed,
                trust_remote_code=model.trust_remote_code,
                **options,
            )
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"vllm: expected a model that it loads, got {model.path!r}: {error}") from error

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float, max_new_tokens: int
    ) -> list[Generated]:
        """One response to each prompt of tokens, as `Engine`.

        Raises:
            InputError: vLLM answers with something else than one finished response to each prompt.
        """
        params = [
            self._params(temperature=temperature, max_tokens=max_new_tokens, seed=seed, detokenize=False)
            for seed in seeds
        ]
        outputs = self._llm.generate([{"prompt_token_ids": list(ids)} for ids in prompts], params, use_tqdm=False)
        if len(outputs) != len(prompts):
            raise InputError(f"vLLM: expected {len(prompts)} responses, got {len(outputs)}")
        return [self._generated(output, row) for row, output in enumerate(outputs)]

    def _generated(self, output: Any, row: int) -> Generated:
        (response,) = output.outputs
        if response.finish_reason not in ("stop", "length"):
            raise InputError(f"vLLM: expected a finished response, got {response.finish_reason!r} in row {row}")
        tokens = list(response.token_ids)
        text = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return Generated(text, len(tokens), response.finish_reason == "length")

    def __enter__(self) -> VLLMEngine:
        return self

    def __exit__(self, *_: object) -> None:
        # vLLM gives its memory back when nothing refers to it any more.
        self._llm = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
