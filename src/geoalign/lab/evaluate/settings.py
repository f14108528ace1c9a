"""The settings of `geoalign evaluate`: how responses are drawn and scored; free of torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from geoalign.errors import ConfigError
from geoalign.lab.data.benchmarks import Benchmark
from geoalign.lab.data.settings import MATH_SYSTEM_PROMPT, FieldsConfig
from geoalign.lab.evaluate.command import EvaluateRequest
from geoalign.lab.models.settings import EVERY_OTHER
from geoalign.lab.rewards.settings import ScoringConfig
from geoalign.pretrained.settings import LoadedModelConfig
from geoalign.settings import Count, Options, Seed, setting, settings
from geoalign.settings.layers import Typed, overridden
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations
from geoalign.text import quote

# What the evaluation itself tells vLLM's LLM.
_OWN_OF_VLLM = {
    "model", "tokenizer", "revision", "tokenizer_revision", "trust_remote_code", "dtype", "seed", "skip_tokenizer_init",
}  # fmt: skip
# Responses generated at a time where nothing is set: vLLM schedules them itself.
_BATCH = {"transformers": 32, "vllm": 1024}


@settings
class EvaluateConfig(LoadedModelConfig):
    """How models are evaluated; which models on which sets stands on the command line."""

    samples: Count | dict[str, Count] | None = setting(
        default=None,
        help="Responses per problem; or set by set, `*` for every other set; null: the benchmark's own, otherwise 1.",
    )
    fields: dict[str, FieldsConfig] = setting(
        default_factory=dict,
        help="By set of --benchmark: prompt_field, answer_field, answer_pattern, where they are not recognised.",
    )
    pass_at_k: bool = setting(default=False, help="As many responses a problem as in the paper's figure: 64, 64, 32.")
    problems: Count | None = setting(default=None, help="At most this many problems of each set, the first; null: all.")
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = setting(
        default=1.0, help="Sampling temperature, over the whole vocabulary; 0: greedy."
    )
    max_new_tokens: Count | None = setting(
        default=None, help="Longest response in tokens; null: 8192 for benchmarks, 1024 for dialogues."
    )
    seed: Seed = setting(default=0, help="Seed of the sampling.")
    engine: Literal["transformers", "vllm"] = setting(
        default="transformers", help="What generates: transformers' generate, or vLLM's LLM."
    )
    batch_size: Count | None = setting(
        default=None, help="Responses generated, scored and saved at a time; null: 32, with vLLM 1024."
    )
    chat_template_kwargs: dict[str, Any] | None = setting(
        default=None,
        help="Arguments of the chat template, such as enable_thinking: false; null: the run's own, or none.",
    )
    system_prompt: str | None = setting(
        default=MATH_SYSTEM_PROMPT, help="System message of benchmarks; null: none. Dialogues have their own."
    )
    vllm: Options = setting(
        default_factory=dict,
        help="Further arguments of vLLM's LLM, passed on as they are, such as tensor_parallel_size.",
    )
    reward: ScoringConfig = setting(default_factory=ScoringConfig, help="How responses are scored.")

    @field_validator("vllm")
    @classmethod
    def _further_arguments(cls, value: dict[str, Any]) -> dict[str, Any]:
        own = sorted(_OWN_OF_VLLM & value.keys())
        if own:
            raise ValueError(f"expected no {', '.join(own)}, which the evaluation sets itself")
        return value

    @model_validator(mode="after")
    def _go_together(self) -> Any:
        most = max(self.samples_by_set.values(), default=1)
        if self.temperature == 0 and self.pass_at_k:
            raise ValueError("pass_at_k: expected false with temperature=0, where all responses are the same, got true")
        if self.temperature == 0 and most > 1:
            raise ValueError(f"samples: expected 1 with temperature=0, where all responses are the same, got {most}")
        if self.pass_at_k and EVERY_OTHER in self.samples_by_set:
            raise ValueError(
                "samples: expected numbers for sets by name beside pass_at_k, which says how many the others get, "
                f"got {self.samples_by_set[EVERY_OTHER]} for all"
            )
        if self.engine != "vllm" and self.vllm:
            raise ValueError(f"vllm: expected nothing with engine={self.engine}, got {quote(self.vllm)}")
        if self.engine == "vllm" and self.device is not None:
            raise ValueError(f"device: expected null with engine=vllm, which takes its own, got {quote(self.device)}")
        return self

    @property
    def batch(self) -> int:
        """Responses generated, scored and saved at a time."""
        return self.batch_size or _BATCH[self.engine]

    @property
    def samples_by_set(self) -> dict[str, int]:
        """The numbers of responses that are set, by the name of the set, `*` for every other set."""
        if isinstance(self.samples, int):
            return {EVERY_OTHER: self.samples}
        return self.samples or {}

    def samples_of(self, name: str, benchmark: Benchmark | None) -> int:
        """Responses to each problem of a set; `benchmark`: which of the paper's it is, None for all other sets."""
        given = self.samples_by_set.get(name, self.samples_by_set.get(EVERY_OTHER))
        if given is not None:
            return given
        if benchmark is None or self.temperature == 0:
            return 1
        if self.pass_at_k and benchmark.pass_samples is not None:
            return benchmark.pass_samples
        return benchmark.samples


def load_evaluate_config(request: EvaluateRequest) -> EvaluateConfig:
    """The settings from the command line: those of options of their own, and those of `--set` laid over them."""
    options: list[Typed] = []
    if request.greedy and request.temperature:
        raise ConfigError("--greedy is temperature 0: leave --temperature out")
    if request.samples:
        _check_samples_once(request)
        words = " ".join(f"--samples {text}" for text in request.samples)
        options.append(Typed("samples", _samples(request.samples), words))
    if request.greedy:
        options.append(Typed("temperature", 0.0, "--greedy"))
    if request.temperature is not None:
        options.append(Typed("temperature", request.temperature, f"--temperature {request.temperature:g}"))
    if request.max_new_tokens is not None:
        options.append(Typed("max_new_tokens", request.max_new_tokens, f"--max-new-tokens {request.max_new_tokens}"))
    if request.pass_at_k:
        options.append(Typed("pass_at_k", True, "--pass-at-k"))
    if request.trust_remote_code:
        options.append(Typed("trust_remote_code", True, "--trust-remote-code"))
    values, locations = overridden(request.overrides, options, default_types={})
    config: EvaluateConfig = load_settings(EvaluateConfig, values, Locations(locations))
    return config


def _check_samples_once(request: EvaluateRequest) -> None:
    for text in request.overrides:
        key = text.partition("=")[0].strip()
        if key == "samples" or key.startswith("samples."):
            raise ConfigError(f"--samples and --set {key} both say how many responses there are: keep one")


def _samples(texts: Sequence[str]) -> int | dict[str, int]:
    """How many responses to each problem `N` and `NAME=N` ask for: one number for all sets, or a number by set.

    `N` is for every set that is not named, whether it stands before or behind the named ones.
    """
    by_name: dict[str, int] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        name = name.strip() if equals else EVERY_OTHER
        if not name or not re.fullmatch(r"\s*[0-9]{1,9}\s*", number) or int(number) < 1:
            raise ConfigError(f"--samples: expected N or NAME=N with a whole number, 1 or more, got {quote(text)}")
        if by_name.setdefault(name, int(number)) != int(number):
            raise ConfigError(f"--samples {text}: expected one number a set, got {by_name[name]} before")
    return by_name[EVERY_OTHER] if list(by_name) == [EVERY_OTHER] else by_name
