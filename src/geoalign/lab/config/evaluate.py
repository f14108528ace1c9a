"""The settings of `geoalign evaluate`: how responses are drawn and scored; free of torch."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from geoalign.lab.config.benchmarks import Benchmark
from geoalign.lab.config.loading import overridden
from geoalign.lab.config.requests import EvaluateRequest
from geoalign.lab.config.rewards import ScoringConfig
from geoalign.lab.config.tasks import MATH_SYSTEM_PROMPT
from geoalign.lab.config.train import LoadedModelConfig
from geoalign.settings import Count, Seed, setting, settings
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations
from geoalign.text import quote

# Longest responses of the paper (hyperparameter table): mathematics, dialogue.
BENCHMARK_TOKENS, DIALOGUE_TOKENS = 8192, 1024
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
        default=None, help="Responses per problem, or set by set; null: the benchmark's own, otherwise 1."
    )
    pass_at_k: bool = setting(default=False, help="As many responses a problem as in the paper's figure: 64, 64, 32.")
    problems: Count | None = setting(default=None, help="At most this many problems of each set, the first; null: all.")
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = setting(
        default=1.0, help="Sampling temperature, over the whole vocabulary; 0: greedy."
    )
    max_new_tokens: Count | None = setting(
        default=None, help="Longest response in tokens; null: 8192 for benchmarks, 1024 for dialogues."
    )
    max_prompt_tokens: Count | None = setting(
        default=None, help="Longer prompts are left out and counted; null: what the model can take."
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
    vllm: dict[str, Any] = setting(
        default_factory=dict,
        help="Further arguments of vLLM's LLM, passed on as they are, such as tensor_parallel_size.",
    )
    reward: ScoringConfig = field(default_factory=ScoringConfig)

    @field_validator("vllm")
    @classmethod
    def _further_arguments(cls, value: dict[str, Any]) -> dict[str, Any]:
        if own := sorted(_OWN_OF_VLLM & value.keys()):
            raise ValueError(f"expected no {', '.join(own)}, which the evaluation sets itself")
        return value

    @model_validator(mode="after")
    def _go_together(self) -> Any:
        several = max(self.samples.values(), default=1) if isinstance(self.samples, dict) else self.samples or 1
        if self.temperature == 0 and (several > 1 or self.pass_at_k):
            got = "pass_at_k" if self.pass_at_k else several
            raise ValueError(f"samples: expected 1 with temperature=0, where all responses are the same, got {got}")
        if self.engine != "vllm" and self.vllm:
            raise ValueError(f"vllm: expected nothing with engine={self.engine}, got {quote(self.vllm)}")
        return self

    @property
    def batch(self) -> int:
        """Responses generated, scored and saved at a time."""
        return self.batch_size or _BATCH[self.engine]

    def samples_of(self, name: str, benchmark: Benchmark | None) -> int:
        """Responses per problem of a set; `benchmark`: which one it is, None for dialogues."""
        if isinstance(self.samples, int):
            return self.samples
        if self.samples is not None and name in self.samples:
            return self.samples[name]
        if benchmark is None or self.temperature == 0:
            return 1
        return (benchmark.pass_samples if self.pass_at_k else None) or benchmark.samples

    def tokens_of(self, benchmark: Benchmark | None) -> int:
        """Longest response to a problem of a set, in tokens."""
        return self.max_new_tokens or (DIALOGUE_TOKENS if benchmark is None else BENCHMARK_TOKENS)


def load_evaluate_config(request: EvaluateRequest) -> EvaluateConfig:
    """The settings from the command line: those that have an option of their own, then each `a.b=c` of `--set`."""
    given = {
        "temperature": 0.0 if request.greedy else request.temperature,
        "max_new_tokens": request.max_new_tokens,
        "pass_at_k": request.pass_at_k or None,
        "trust_remote_code": request.trust_remote_code or None,
    }
    # NAME=N is a setting of one set, N that of all.
    samples = [f"samples.{text}" if "=" in text else f"samples={text}" for text in request.samples]
    values, locations = overridden([*samples, *request.overrides])
    values = {name: value for name, value in given.items() if value is not None} | values
    config: EvaluateConfig = load_settings(EvaluateConfig, values, Locations(locations))
    return config
