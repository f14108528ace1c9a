"""The settings of `geoalign evaluate`: how responses are drawn and scored; free of torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from geoalign.errors import ConfigError
from geoalign.lab.config.benchmarks import Benchmark
from geoalign.lab.config.loading import override_setting, parse_settings
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.config.tasks import MATH_SYSTEM_PROMPT
from geoalign.settings.curators import settings
from geoalign.settings.locations import Places
from geoalign.settings.shown import shown

# Longest responses of the paper (hyperparameter table): mathematics, dialogue.
BENCHMARK_TOKENS, DIALOGUE_TOKENS = 8192, 1024
# What the evaluation itself tells vLLM's LLM.
_OWN_OF_VLLM = (
    "model",
    "tokenizer",
    "revision",
    "tokenizer_revision",
    "trust_remote_code",
    "dtype",
    "seed",
    "skip_tokenizer_init",
)
# Responses generated at a time where nothing is set: vLLM schedules them itself.
_BATCH = {"transformers": 32, "vllm": 1024}

_Count = Annotated[int, Field(ge=1)]


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@settings
class EvaluationScoring:
    """How responses are scored: those to benchmarks against their answers, those to dialogues by a reward model."""

    model: RewardModelConfig = field(
        default_factory=RewardModelConfig,
        metadata=_help("A ready reward model for dialogues (`path` or `url`); neither: they are not scored."),
    )
    max_unscored: Annotated[float, Field(gt=0, le=1)] = field(
        default=0.5, metadata=_help("Largest share of a batch that may stay unscored; beyond it the evaluation stops.")
    )
    timeout: Annotated[float, Field(gt=0)] = field(
        default=5.0, metadata=_help("Seconds to verify one answer; then it counts as wrong and as a time-out.")
    )
    workers: Annotated[int, Field(ge=1, le=1024)] = field(default=2, metadata=_help("Processes that verify answers."))
    max_answer_length: Annotated[int, Field(ge=1, le=10_000)] = field(
        default=1000, metadata=_help("Longer boxed answers, in characters, count as wrong unread.")
    )


@settings
class EvaluateConfig:
    """How models are evaluated; which models on which sets stands on the command line."""

    samples: _Count | dict[str, _Count] | None = field(
        default=None, metadata=_help("Responses per problem, or set by set; null: the benchmark's own, otherwise 1.")
    )
    pass_at_k: bool = field(
        default=False, metadata=_help("As many responses per problem as the paper's pass@k figure: 64, 64, 32.")
    )
    problems: _Count | None = field(default=None, metadata=_help("Only the first so many of each set; null: all."))
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = field(
        default=1.0, metadata=_help("Of the sampling, over the whole vocabulary; 0: the likeliest token each time.")
    )
    max_new_tokens: _Count | None = field(
        default=None, metadata=_help("Longest response in tokens; null: 8192 for benchmarks, 1024 for dialogues.")
    )
    max_prompt_tokens: _Count | None = field(
        default=None, metadata=_help("Longer prompts are left out and counted; null: what the model can take.")
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = field(default=0, metadata=_help("Seed of the sampling."))
    engine: Literal["transformers", "vllm"] = field(
        default="transformers", metadata=_help("What generates: transformers' generate, or vLLM's LLM.")
    )
    batch_size: _Count | None = field(
        default=None, metadata=_help("Responses generated, scored and saved at a time; null: 32, with vLLM 1024.")
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto", metadata=_help("Type of the weights in memory; auto: float32 on a CPU, otherwise bfloat16.")
    )
    device: Annotated[str, Field(min_length=1)] | None = field(
        default=None, metadata=_help("Device of transformers; null: an accelerator where there is one.")
    )
    revision: Annotated[str, Field(min_length=1)] | None = field(
        default=None, metadata=_help("Branch, tag or commit on the hub.")
    )
    trust_remote_code: bool = field(default=False, metadata=_help("Run the Python code that comes with the models."))
    chat_template_kwargs: dict[str, Any] | None = field(
        default=None,
        metadata=_help(
            "What the chat template is told, such as enable_thinking: false; null: a run's own, or nothing."
        ),
    )
    system_prompt: str | None = field(
        default=MATH_SYSTEM_PROMPT,
        metadata=_help("System message of benchmarks; null: none. Dialogues have their own."),
    )
    vllm: dict[str, Any] = field(
        default_factory=dict,
        metadata=_help("Further arguments of vLLM's LLM, passed on as they are, such as tensor_parallel_size."),
    )
    reward: EvaluationScoring = field(default_factory=EvaluationScoring)

    @field_validator("vllm", "chat_template_kwargs")
    @classmethod
    def _json(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected what JSON can hold: {error}") from error
        return value

    @field_validator("vllm")
    @classmethod
    def _further_arguments(cls, value: dict[str, Any]) -> dict[str, Any]:
        own = [name for name in _OWN_OF_VLLM if name in value]
        if own:
            raise ValueError(f"expected none of {', '.join(_OWN_OF_VLLM)}, which the evaluation sets itself")
        return value

    @model_validator(mode="after")
    def _go_together(self) -> Any:
        several = max(self.samples.values(), default=1) if isinstance(self.samples, dict) else self.samples or 1
        if self.temperature == 0 and (several > 1 or self.pass_at_k):
            got = "pass_at_k" if self.pass_at_k else several
            raise ValueError(f"samples: expected 1 with temperature=0, where all responses are the same, got {got}")
        if self.engine != "vllm" and self.vllm:
            raise ValueError(f"vllm: expected nothing with engine={self.engine}, got {shown(self.vllm)}")
        if self.engine == "vllm" and self.device is not None:
            raise ValueError(
                f"device: expected null with engine=vllm, which chooses it itself, got {shown(self.device)}"
            )
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


def load_evaluate_config(given: Mapping[str, Any], overrides: Sequence[str] = ()) -> EvaluateConfig:
    """The settings from the command line: those that have an option of their own, and each `a.b=c` of `--set`.

    Raises:
        ConfigError: an unknown setting (with the nearest known one), a value out of range, or one given both ways.
    """
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for override in overrides:
        override_setting(values, places, override)
    for name, value in given.items():
        if name in values:
            raise ConfigError(f"{name}: expected once, got {shown(value)} and {places[name]}")
        values[name] = value
    config: EvaluateConfig = parse_settings(EvaluateConfig, values, Places(places))
    return config


def parse_samples(texts: Sequence[str]) -> int | dict[str, int] | None:
    """`--samples`: one number for all sets, or NAME=NUMBER for each of some; None where none is given.

    Raises:
        ConfigError: anything else, or both.
    """
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return _number(texts[0], texts[0])
    found: dict[str, int] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals or not name.strip() or name.strip() in found:
            raise ConfigError(f"--samples: expected one number, or NAME=NUMBER once for a set, got {shown(text)}")
        found[name.strip()] = _number(number, text)
    return found


def _number(text: str, where: str) -> int:
    found = re.fullmatch(r"\s*([0-9]{1,9})\s*", text)
    if found is None:
        raise ConfigError(f"--samples: expected a whole number of at most nine digits, got {shown(where)}")
    return int(found.group(1))
