"""The settings of `geoalign evaluate`: how responses are drawn and scored; free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from geoalign.errors import ConfigError
from geoalign.lab.data.benchmarks import Benchmark
from geoalign.lab.data.settings import MATH_SYSTEM_PROMPT, Pattern
from geoalign.lab.evaluate.command import EvaluateRequest
from geoalign.lab.models.settings import EVERY_OTHER
from geoalign.lab.rewards.settings import ScoringConfig
from geoalign.pretrained.settings import LoadedModelConfig
from geoalign.settings import Count, Name, Options, Seed, setting, settings
from geoalign.settings.layers import Typed, overridden
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations
from geoalign.settings.yaml_text import parse_value
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
class FieldsConfig:
    """Where the files of a benchmark keep problem and answer; a field that is null is recognised."""

    prompt_field: Name | None = setting(default=None, help="Field of the problem.")
    answer_field: Name | None = setting(default=None, help="Field of the gold answer.")
    answer_pattern: Pattern = setting(default=None, help="Regular expression whose group is the answer.")


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
    vllm: Options = setting(
        default_factory=dict,
        help="Further arguments of vLLM's LLM, passed on as they are, such as tensor_parallel_size.",
    )
    reward: ScoringConfig = setting(default_factory=ScoringConfig, help="How responses are scored.")

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
        every = self.samples.get(EVERY_OTHER) if isinstance(self.samples, dict) else self.samples
        if self.pass_at_k and every is not None:
            raise ValueError(
                f"samples: expected numbers for sets by name beside pass_at_k, which says how many the others get, "
                f"got {every} for all"
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

    def samples_of(self, name: str, benchmark: Benchmark | None) -> int:
        """Responses per problem of a set; `benchmark`: which one it is, None for dialogues."""
        if isinstance(self.samples, int):
            return self.samples
        named = self.samples or {}
        given = named.get(name, named.get(EVERY_OTHER))
        if given is not None:
            return given
        if benchmark is None or self.temperature == 0:
            return 1
        return (benchmark.pass_samples if self.pass_at_k else None) or benchmark.samples

    def tokens_of(self, benchmark: Benchmark | None) -> int:
        """Longest response to a problem of a set, in tokens."""
        return self.max_new_tokens or (DIALOGUE_TOKENS if benchmark is None else BENCHMARK_TOKENS)


def load_evaluate_config(request: EvaluateRequest) -> EvaluateConfig:
    """The settings from the command line: those of options of their own, and those of `--set` laid over them."""
    options: list[Typed] = []
    if request.greedy and request.temperature:
        raise ConfigError("--greedy is temperature 0: leave --temperature out")
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
    samples, others = _samples(request)
    values, locations = overridden(others, options, default_types={})
    if samples:
        values["samples"] = _plain_samples(samples)
        locations["samples"] = ", ".join(dict.fromkeys(option.words for option in samples))
    return _loaded(values, locations)


def _loaded(values: dict[str, Any], locations: dict[str, str]) -> EvaluateConfig:
    """The settings; what says how many responses each problem gets is named together where it does not go together."""
    words = [locations[key] for key in ("samples", "pass_at_k", "temperature") if key in locations]
    together = {**locations, "samples": " with ".join(words)} if words else locations
    config: EvaluateConfig = load_settings(EvaluateConfig, values, Locations(together))
    return config


def _samples(request: EvaluateRequest) -> tuple[list[Typed], list[str]]:
    """How many responses each set gets, by `samples.NAME` (`samples.*` for all that are not named), and the overrides
    that say something else.

    A bare number is for every set that is not named, whether it stands before or behind the named ones.
    """
    found: list[Typed] = []
    others: list[str] = []
    for text in request.samples:
        name, equals, number = text.rpartition("=")
        words = f"--samples {text}"
        if equals and not name.strip():
            raise ConfigError(f"{words}: expected N or NAME=N, got {quote(text)}")
        key = name.strip() if equals else EVERY_OTHER
        found.append(Typed(f"samples.{key}", _number(number, words), words))
    for text in request.overrides:
        dotted, _, value = text.partition("=")
        key = dotted.strip()
        words = f"--set {text}"
        if key.startswith("samples."):
            found.append(Typed(key, _number(value, words), words))
        elif key == "samples":
            given = parse_value(value, key, words)
            by_name = given if isinstance(given, dict) else {} if given is None else {EVERY_OTHER: given}
            found += [Typed(f"samples.{name}", number, words) for name, number in by_name.items()]
        else:
            others.append(text)
    return found, others


def _number(text: str, words: str) -> int:
    value = parse_value(text, "samples", words)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{words}: samples: expected a whole number of responses, 1 or more, got {quote(text)}")
    return value


def _plain_samples(samples: Sequence[Typed]) -> Any:
    """As the setting has it: one number where no set is named."""
    by_name = {option.key.removeprefix("samples."): option.value for option in samples}
    return by_name[EVERY_OTHER] if list(by_name) == [EVERY_OTHER] else by_name
