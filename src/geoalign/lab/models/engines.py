"""What generates responses: one protocol, kept by transformers' generate, by vLLM, and by the vLLM of a trainer."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any, Protocol, Self

import torch
from torch import Tensor
from transformers import LogitsProcessorList

from geoalign.errors import ConfigError, InputError, MissingExtraError
from geoalign.hidden.extract import eval_mode
from geoalign.lab.models.draws import OwnDraws, uniforms
from geoalign.lab.models.shared_prompts import generate_sharing_prompts

# The likeliest token each time, whatever the model's own generation settings say.
GREEDY = {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}
# What an evaluation sets on TRL's `VLLMGeneration` for as long as it takes.
_WHOLE_VOCABULARY = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


@dataclass(frozen=True)
class Generated:
    """One response: its text without special tokens, its length with its end, and whether it reached the limit."""

    text: str
    tokens: int
    truncated: bool


class Engine(Protocol):
    """A model that answers prompts."""

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float, max_new_tokens: int
    ) -> list[Generated]:
        """One response to each prompt of tokens, drawn from the whole vocabulary; `seeds` as of `seed_of`."""


def as_generated(tokens: Sequence[int], ends: frozenset[int], tokenizer: Any) -> Generated:
    """The response that new tokens hold: up to the first one that ends it; what follows is padding."""
    length = next((number for number, token in enumerate(tokens, start=1) if token in ends), None)
    return Generated(
        text=tokenizer.decode(tokens[:length], skip_special_tokens=True),
        tokens=len(tokens) if length is None else length,
        truncated=length is None,
    )


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a response: the tokenizer's, and those that the model's generation settings name besides."""
    settings = getattr(model, "generation_config", None)
    named = getattr(settings, "eos_token_id", None)
    ids = named if isinstance(named, list | tuple) else [named]
    return frozenset(int(token) for token in (*ids, tokenizer.eos_token_id) if token is not None)


class _Opened:
    """A context manager that frees the model: memory is given back when nothing refers to it any more."""

    _model: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._model = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


class TransformersEngine(_Opened):
    """Generates a batch at a time, with a stream of draws for each response; a context manager that frees the model.

    Leaves no trace on a model in training: every module's mode and torch's generators are as before.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._pad = pad_token(tokenizer)
        self._ends = end_tokens(model, tokenizer)

    @torch.inference_mode()
    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float, max_new_tokens: int
    ) -> list[Generated]:
        options: dict[str, Any] = dict(GREEDY)
        if temperature > 0:
            draws = OwnDraws(uniforms(seeds, max_new_tokens), temperature)
            options["logits_processor"] = LogitsProcessorList([draws])
        with eval_mode(self._model):
            tokens = new_tokens(self._model, prompts, pad=self._pad, max_new_tokens=max_new_tokens, options=options)
        return [as_generated(row, self._ends, self._tokenizer) for row in tokens.tolist()]


def new_tokens(
    model: Any, prompts: Sequence[Sequence[int]], *, pad: int, max_new_tokens: int, options: dict[str, Any]
) -> Tensor:
    """[batch, at most max_new_tokens] tokens after each prompt, padded on the right; `options`: of `generate`."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(row)) + [*row] for row in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts], device=model.device)
    output = generate_sharing_prompts(
        model.generate,
        model,
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


def pad_token(tokenizer: Any) -> int:
    """The padding token, or the end token where there is none."""
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    if pad is None:
        raise InputError("tokenizer: expected a padding or an end token, got none")
    return int(pad)


class VLLMEngine(_Opened):
    """vLLM's `LLM` with `SamplingParams(seed=...)` for every response; a context manager that frees it.

    Temperature and length are the only settings of the sampling: of `SamplingParams`, not of the model's own generation
    settings, come the others, so that the whole vocabulary is drawn from. The text is decoded here, as of transformers.
    """

    def __init__(self, model: Any, tokenizer: Any, *, dtype: str, seed: int, options: Mapping[str, Any]) -> None:
        try:
            from vllm import LLM, SamplingParams
        except ImportError as error:
            raise MissingExtraError(f"engine=vllm needs vLLM: pip install vllm ({error})") from error
        self._params = SamplingParams
        self._tokenizer = tokenizer
        # vLLM works in processes of its own: what ends one stands there, its error here says that one ended.
        self._standard_error: IO[bytes] = TemporaryFile("a+b")  # noqa: SIM115 (closed as this is)
        try:
            with _standard_error_into(self._standard_error):
                self._model = LLM(
                    model=model.path,
                    revision=model.revision,
                    tokenizer_revision=model.revision,
                    trust_remote_code=model.trust_remote_code,
                    dtype=dtype,
                    seed=seed,
                    **options,
                )
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            with self._standard_error:
                cause = self._cause(error)
            raise ConfigError(f"vllm: expected a model that it loads, got {model.path!r}: {cause}") from error

    def _cause(self, error: Exception) -> object:
        """The last error that vLLM's processes wrote to standard error; `error` itself where they wrote none."""
        self._standard_error.seek(0)
        written = self._standard_error.read().decode(errors="replace")
        errors = re.findall(r"^(?:\(.*?\) )?((?:\w+\.)*\w*(?:Error|Exception): .+)", written, re.MULTILINE)
        return errors[-1] if errors else error

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float, max_new_tokens: int
    ) -> list[Generated]:
        inputs = [{"prompt_token_ids": [*ids]} for ids in prompts]
        params = [
            self._params(seed=seed, temperature=temperature, max_tokens=max_new_tokens, detokenize=False)
            for seed in seeds
        ]
        try:
            outputs = self._model.generate(inputs, params, use_tqdm=False)
        except Exception as error:  # vLLM's EngineDeadError, or whatever else it raises
            raise InputError(f"vLLM: expected responses, got {self._cause(error)}") from error
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

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._standard_error.close()


@contextmanager
def _standard_error_into(file: IO[bytes]) -> Iterator[None]:
    """Processes that start meanwhile have the file for their standard error."""
    own = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


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
        """As `Engine`; `seeds` are not used, because TRL passes none on."""
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
        return [as_generated([int(token) for token in ids], ends, tokenizer) for ids in tokens]


@contextmanager
def _set(target: Any, values: dict[str, Any]) -> Iterator[None]:
    before = {name: getattr(target, name) for name in values}
    vars(target).update(values)
    try:
        yield
    finally:
        vars(target).update(before)
