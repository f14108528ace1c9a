"""The options of TRL's trainers: which are passed on, which are set here, and what this project's defaults are.

Here only names and types are checked, by TRL's own annotations; what a value may be is TRL's to say.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from transformers.integrations import get_reporting_integration_callbacks
from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.errors import ConfigError
from geoalign.lab.models.process_setup import Processes
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.settings.problems import check_keys
from geoalign.text import one_line, quote

# What a run folder and its resumption decide themselves, with the setting to use instead.
_SET_HERE = {
    **dict.fromkeys(("save_only_model", "load_best_model_at_end", "ignore_data_skip", "disable_tqdm"), "nothing"),
    **dict.fromkeys(("eval_strategy", "eval_steps", "do_eval"), "evaluation.every"),
    "restore_callback_states_from_checkpoint": "nothing",
    **dict.fromkeys(("seed", "data_seed"), "seed"),
    "output_dir": "output.folder",
    "save_strategy": "save_steps",
    "save_total_limit": "output.keep_checkpoints",
    "logging_strategy": "logging_steps",
    "resume_from_checkpoint": "--resume",
    "chat_template_kwargs": "model.chat_template_kwargs",
    "trust_remote_code": "model.trust_remote_code",
}

# transformers renamed the switch in 5.23 and warns about the old name.
_CHECKPOINTING = (
    "activation_checkpointing"
    if "activation_checkpointing" in {item.name for item in dataclasses.fields(GRPOConfig)}
    else "gradient_checkpointing"
)

Options = Mapping[str, Any]

# A text is no number, a number no boolean: TRL's dataclasses take anything, and much of it fails late or never.
_EXACT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)

_COMMON: dict[str, Any] = {
    "report_to": "none",
    "save_strategy": "steps",
    "disable_tqdm": True,
    # TRL's default recomputes the activations to save memory; a small model needs the time more.
    _CHECKPOINTING: False,
    "logging_steps": 1,
    "logging_nan_inf_filter": False,
}

_SUPERVISED: dict[str, Any] = {
    **_COMMON,
    "per_device_train_batch_size": 64,
    "lr_scheduler_type": "cosine",
    "warmup_steps": 20,
    "save_steps": 50,
    "max_length": None,
}

SFT: dict[str, Any] = {
    **_SUPERVISED,
    "max_steps": 200,
    "learning_rate": 3e-3,
    "packing": False,
    # TRL refuses a completion-only loss for data without a prompt column; ours always have one.
    "completion_only_loss": True,
}

# The coefficient keeps the scores around zero; the loss itself knows differences only.
REWARD_MODEL: dict[str, Any] = {
    **_SUPERVISED,
    "max_steps": 300,
    "learning_rate": 1e-3,
    "center_rewards_coefficient": 0.01,
}

GRPO: dict[str, Any] = {
    **_COMMON,
    "max_steps": 100,
    "num_generations": 8,
    "per_device_train_batch_size": 128,
    "steps_per_generation": 2,
    "learning_rate": 5e-4,
    "lr_scheduler_type": "constant_with_warmup",
    "warmup_steps": 5,
    "max_completion_length": 64,
    "temperature": 1.0,
    "beta": 0.0,
}

_ACCUMULATION = "gradient_accumulation_steps"
# The options that the shape of a generation is reckoned from; the first of them that is wrong is the one at fault.
_COUNTS: tuple[str, ...] = ("per_device_train_batch_size", _ACCUMULATION, "steps_per_generation", "num_iterations")
_COUNTS = (*_COUNTS, "generation_batch_size", "num_generations", "max_completion_length")

_KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sft": (SFTConfig, SFT),
    "reward_model": (RewardConfig, REWARD_MODEL),
    "gold_model": (RewardConfig, REWARD_MODEL),
    "grpo": (GRPOConfig, GRPO),
}


def trainer_options(
    section: str, values: Options, *, seed: int, folder: Path, locations: Locations = NOWHERE, bf16: bool = False
) -> Any:
    """TRL's options from a section: `SFTConfig` of `sft`, `RewardConfig` of both models, `GRPOConfig` of `grpo`.

    TRL goes on from a checkpoint bit for bit only where it would generate anew anyway, so those of `grpo` lie there:
    `save_steps` defaults to a generation boundary near 20 updates, and any other place is refused.
    `bf16`: whether a CPU computes in bfloat16 where the section does not say; the weights are float32 either way.
    """
    check_options(section, values, locations)
    defaults = {**_KINDS[section][1], **_device(bf16), "seed": seed, "output_dir": str(folder)}
    if section != "grpo":
        options = _made(section, {**defaults, "data_seed": seed}, values, locations)
        _check_save_steps(section, options, 1, "", locations)
        return options
    if "generation_batch_size" in values or "gradient_accumulation_steps" in values:
        del defaults["steps_per_generation"]
    if "num_train_epochs" in values and "max_steps" not in values:
        defaults["max_steps"] = -1
    options = _made(section, {**defaults, "save_steps": 1}, values, locations)
    if options.logging_steps != 1:
        # TRL writes the mean over the updates between two lines: their number, and so every sum, would be lost.
        why = "every update is a line of metrics.jsonl, from which counts and curves are made: leave it out"
        raise located(locations, "grpo.logging_steps", f"expected 1, got {quote(options.logging_steps)}: {why}")
    between = generation_shape(options, locations).updates
    if "save_steps" not in values:
        options.save_steps = between * math.ceil(20 / between)
    why = " (updates per generation, because a run resumes bit for bit only there)"
    _check_save_steps(section, options, between, why, locations)
    return options


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
            raise located(locations, f"grpo.{name}", f"expected at least 1, got {quote(value)}")
    rollouts, samples = counts["generation_batch_size"], counts["num_generations"]
    micro_batches, accumulated = options.num_iterations * counts["steps_per_generation"], counts[_ACCUMULATION]
    if micro_batches % accumulated:
        expected = f"expected a divisor of steps_per_generation x num_iterations = {micro_batches}, got {accumulated}"
        raise located(locations, f"grpo.{_ACCUMULATION}", expected)
    return GenerationShape(rollouts // samples, samples, counts["max_completion_length"], micro_batches // accumulated)


def located(locations: Locations, key: str, text: str) -> ConfigError:
    """The error of a setting, with the place where it was set."""
    return ConfigError(f"{locations.prefix(key)}{key}: {text}")


def _check_save_steps(section: str, options: Any, unit: int, why: str, locations: Locations) -> None:
    """Raises ConfigError unless checkpoints lie at multiples of `unit`, and where metrics have just been logged."""
    value, logging = options.save_steps, options.logging_steps
    expected = None
    if value != int(value) or value < 1 or value % unit:
        expected = f"a multiple of {unit}{why}"
    elif logging != int(logging) or logging < 1 or value % logging:
        expected = f"a multiple of {section}.logging_steps = {logging}, a whole number (no metric is half collected)"
    if expected is not None:
        raise located(locations, f"{section}.save_steps", f"expected {expected}, got {value}")


# What only a GPU, or a package that needs one, can do, by the beginnings of the names.
_GPU_ONLY = (
    *("bf16", "fp16", "tf32", "gradient_checkpointing", "activation_checkpointing"),
    *("use_liger", "deepspeed", "fsdp", "use_vllm", "vllm_"),
)


def without_gpu(values: Options) -> dict[str, Any]:
    """Options of a TRL trainer without those that need a GPU, vLLM's among them: the rest can be checked anywhere."""
    return {name: value for name, value in values.items() if not name.startswith(_GPU_ONLY)}


def _device(bf16: bool) -> dict[str, Any]:
    if torch.accelerator.is_available():
        return {}
    # bf16 is TRL's default; most CPUs are slow with it. Several processes without a GPU talk by gloo.
    backend = {"ddp_backend": "gloo"} if Processes.launched().count > 1 else {}
    return {"use_cpu": True, "bf16": bf16, **backend}


def check_options(section: str, values: Options, locations: Locations = NOWHERE) -> None:
    """Raises ConfigError for an option that TRL does not know, one that is set here, or a value of another type than
    TRL says; works on a GPU and off it."""
    kind, _ = _KINDS[section]
    known = {item.name: item for item in dataclasses.fields(kind) if item.init}
    for name in values.keys() & _SET_HERE.keys():
        instead = f"expected to be left out (use {_SET_HERE[name]}), got {quote(values[name])}"
        raise located(locations, f"{section}.{name}", instead)
    check_keys(values, known, section, locations)
    hints = get_type_hints(kind)
    for name, value in values.items():
        if value is None and known[name].default is None:
            continue
        try:
            TypeAdapter(hints[name], config=_EXACT).validate_python(value)
        except ValidationError as error:
            expected = f"{getattr(hints[name], '__name__', hints[name])} (TRL's {kind.__name__})"
            raise located(locations, f"{section}.{name}", f"expected {expected}, got {quote(value)}") from error
    if "trust_remote_code" in (values.get("model_init_kwargs") or {}):
        key = f"{section}.model_init_kwargs.trust_remote_code"
        raise located(locations, key, "expected to be left out (use model.trust_remote_code)")


def _made(section: str, defaults: Options, values: Options, locations: Locations) -> Any:
    """TRL's options of one section, or a ConfigError with what TRL said and the option at fault: the one without which
    TRL takes the others."""

    def make(values: Options) -> Any:
        options = _KINDS[section][0](**{**defaults, **values})
        for callback in get_reporting_integration_callbacks(options.report_to):
            callback()  # says that its package is absent, which the trainer would only after the warm start
        return options

    try:
        return make(values)
    except Exception as error:  # TRL's checks raise whatever they meet: ZeroDivisionError, KeyError, OSError
        faulty = []
        for name in values:
            with suppress(Exception):
                make({other: value for other, value in values.items() if other != name})
                faulty.append(name)
        key = f"{section}.{faulty[0]}" if len(faulty) == 1 else section
        raise located(locations, key, f"{type(error).__name__} from TRL: {one_line(error)}") from error
