"""The options of TRL's trainers: this project's defaults, the options that a run decides itself, and their checks.

Names and types are checked here, by TRL's own annotations. What values an option may have is TRL's to say.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from transformers.integrations import get_reporting_integration_callbacks
from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.errors import ConfigError
from geoalign.lab.models.process_setup import Processes
from geoalign.lab.runs.folder import RunFolder, stage_checkpoints
from geoalign.lab.train.settings import RunConfig
from geoalign.settings.locations import NOWHERE
from geoalign.settings.problems import check_keys
from geoalign.text import one_line, quote

Options = Mapping[str, Any]

# transformers renamed the switch in 5.23 and warns about the old name.
_CHECKPOINTING = (
    "activation_checkpointing"
    if "activation_checkpointing" in {item.name for item in dataclasses.fields(GRPOConfig)}
    else "gradient_checkpointing"
)

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

# TRL's class and this project's defaults, by the section of the settings.
_SECTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sft": (SFTConfig, SFT),
    "reward_model": (RewardConfig, REWARD_MODEL),
    "gold_model": (RewardConfig, REWARD_MODEL),
    "grpo": (GRPOConfig, GRPO),
}

# Options that a run folder and its resumption decide themselves, with the setting to use instead.
_DECIDED_BY_THE_RUN = {
    "save_only_model": "nothing",
    "load_best_model_at_end": "nothing",
    "ignore_data_skip": "nothing",
    "disable_tqdm": "nothing",
    "restore_callback_states_from_checkpoint": "nothing",
    "eval_strategy": "evaluation.every",
    "eval_steps": "evaluation.every",
    "do_eval": "evaluation.every",
    "seed": "seed",
    "data_seed": "seed",
    "output_dir": "output.folder",
    "save_strategy": "save_steps",
    "save_total_limit": "output.keep_checkpoints",
    "logging_strategy": "logging_steps",
    "resume_from_checkpoint": "--resume",
    "chat_template_kwargs": "model.chat_template_kwargs",
    "trust_remote_code": "model.trust_remote_code",
}

# Types are checked here because TRL's dataclasses accept any value, and a wrong one fails late or never.
_EXACT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


def options_of_trainers(config: RunConfig, folder: RunFolder, *, bf16: bool = False) -> dict[str, Any]:
    """TRL's options of all stages of a run by section, without `sft` where there is no warm start; as `trainer_options`
    gives them."""
    sections = {
        "reward_model": config.reward_model,
        "gold_model": {**config.reward_model, **config.gold_model},
        "grpo": config.grpo,
    }
    if config.sft is not None:
        sections["sft"] = config.sft
    checkpoints = {**stage_checkpoints(folder), "grpo": folder.rl_checkpoints}
    return {
        section: trainer_options(section, values, seed=config.seed, folder=checkpoints[section], bf16=bf16)
        for section, values in sections.items()
    }


def trainer_options(section: str, values: Options, *, seed: int, folder: Path, bf16: bool = False) -> Any:
    """TRL's options from a section: `SFTConfig` of `sft`, `RewardConfig` of both models, `GRPOConfig` of `grpo`.

    ConfigError names the key of an option that cannot be used.

    Args:
        folder: where the trainer writes its checkpoints.
        bf16: whether a CPU computes in bfloat16 where the section does not say; the weights are float32 either way.
    """
    check_options(section, values)
    values = _by_new_names(values)
    _, project_defaults = _SECTIONS[section]
    defaults = {**project_defaults, **_device_defaults(bf16), "seed": seed, "output_dir": str(folder)}
    if "num_train_epochs" in values and "max_steps" not in values:
        # The epochs say how many updates there are, and not our default.
        defaults["max_steps"] = -1
    if section == "grpo":
        return _grpo_options(defaults, values)
    options = _construct(section, {**defaults, "data_seed": seed, **values})
    _check_save_steps(section, options, unit=1)
    return options


def _by_new_names(values: Options) -> Options:
    """The options by names that this version of transformers reads: it heeds an old name only without the new one."""
    if "gradient_checkpointing" not in values or _CHECKPOINTING in values:
        return values
    others = {name: value for name, value in values.items() if name != "gradient_checkpointing"}
    return {**others, _CHECKPOINTING: values["gradient_checkpointing"]}


def _grpo_options(defaults: dict[str, Any], values: Options) -> Any:
    """The options of RL.

    TRL goes on from a checkpoint bit for bit only where it would generate anew anyway. So checkpoints lie there:
    `save_steps` defaults to a generation boundary near 20 updates, and any other place is refused.
    """
    if "generation_batch_size" in values or "gradient_accumulation_steps" in values:
        del defaults["steps_per_generation"]
    options = _construct("grpo", {**defaults, "save_steps": 1, **values})
    if options.logging_steps != 1:
        # TRL writes the mean over the updates between two lines: their number, and so every sum, would be lost.
        raise ConfigError(
            f"grpo.logging_steps: expected 1, got {quote(options.logging_steps)}: every update is a line of "
            "metrics.jsonl, from which counts and curves are made: leave it out"
        )
    updates = generation_shape(options).updates
    if "save_steps" not in values:
        options.save_steps = updates * math.ceil(20 / updates)
    _check_save_steps("grpo", options, unit=updates)
    return options


@dataclass(frozen=True)
class GenerationShape:
    """One generation batch: prompts, rollouts of each, their longest length in tokens, updates made on the batch."""

    prompts: int
    samples: int
    longest: int
    updates: int


def generation_shape(options: Any) -> GenerationShape:
    """The shape of a generation batch, by a `GRPOConfig`.

    Updates on it are steps_per_generation x num_iterations / gradient_accumulation_steps.
    ConfigError where the accumulation does not divide the micro-batches, so that one update would span two generations.
    """
    micro_batches = options.num_iterations * options.steps_per_generation
    accumulated = options.gradient_accumulation_steps
    if accumulated < 1 or micro_batches % accumulated:
        raise ConfigError(
            "grpo.gradient_accumulation_steps: expected a divisor of steps_per_generation x num_iterations = "
            f"{micro_batches}, got {accumulated}"
        )
    shape = GenerationShape(
        prompts=options.generation_batch_size // options.num_generations,
        samples=options.num_generations,
        longest=options.max_completion_length or 0,
        updates=micro_batches // accumulated,
    )
    if min(shape.prompts, shape.longest, shape.updates) < 1:
        raise ConfigError(
            f"grpo: expected at least one prompt, one token and one update in a generation, got {shape.prompts} "
            f"prompts, {shape.longest} tokens (max_completion_length) and {shape.updates} updates"
        )
    return shape


def _check_save_steps(section: str, options: Any, unit: int) -> None:
    """Raises ConfigError unless checkpoints lie at multiples of `unit`, and where metrics have just been logged."""
    if not _is_multiple(options.save_steps, unit):
        why = " (updates per generation, because a run resumes bit for bit only there)" if section == "grpo" else ""
        raise ConfigError(f"{section}.save_steps: expected a multiple of {unit}{why}, got {options.save_steps}")
    if not _is_multiple(options.save_steps, options.logging_steps):
        raise ConfigError(
            f"{section}.save_steps: expected a multiple of {section}.logging_steps = {options.logging_steps}, a whole "
            f"number (no metric is half collected), got {options.save_steps}"
        )


def _is_multiple(value: float, unit: float) -> bool:
    """Whether both are whole numbers of at least 1, and the second divides the first."""
    return unit >= 1 and unit == int(unit) and value >= 1 and value % unit == 0


def _device_defaults(bf16: bool) -> dict[str, Any]:
    """What a machine without an accelerator needs; nothing with one, where bfloat16 is TRL's default."""
    if torch.accelerator.is_available():
        return {}
    defaults: dict[str, Any] = {"use_cpu": True, "bf16": bf16}
    if Processes.launched().count > 1:
        defaults["ddp_backend"] = "gloo"
    return defaults


def check_options(section: str, values: Options) -> None:
    """Raises ConfigError for an option that TRL does not know, one that the run decides itself, or a value of another
    type than TRL says; does so without a GPU for the options of GPUs, too."""
    kind, _ = _SECTIONS[section]
    for name in values:
        if name in _DECIDED_BY_THE_RUN:
            instead = f"expected to be left out (use {_DECIDED_BY_THE_RUN[name]})"
            raise ConfigError(f"{section}.{name}: {instead}, got {quote(values[name])}")
    known = {item.name: item for item in dataclasses.fields(kind) if item.init}
    check_keys(values, known, section, NOWHERE)
    hints = get_type_hints(kind)
    for name, value in values.items():
        if value is None and known[name].default is None:
            continue
        try:
            TypeAdapter(hints[name], config=_EXACT).validate_python(value)
        except ValidationError as error:
            expected = getattr(hints[name], "__name__", hints[name])
            got = quote(value)
            raise ConfigError(f"{section}.{name}: expected {expected} (TRL's {kind.__name__}), got {got}") from error
    if "trust_remote_code" in (values.get("model_init_kwargs") or {}):
        key = f"{section}.model_init_kwargs.trust_remote_code"
        raise ConfigError(f"{key}: expected to be left out (use model.trust_remote_code)")


def _construct(section: str, options: Options) -> Any:
    """TRL's object of the options; ConfigError with TRL's own message where it refuses them."""
    kind, _ = _SECTIONS[section]
    try:
        constructed = kind(**options)
        # A package that `report_to` names and that is absent: the trainer would say so only after the warm start.
        for callback in get_reporting_integration_callbacks(constructed.report_to):
            callback()
    except Exception as error:  # TRL's checks raise whatever they meet: ZeroDivisionError, KeyError, OSError
        raise ConfigError(f"{section}: {type(error).__name__} from TRL: {one_line(error)}") from error
    return constructed


# What only a GPU, or a package that needs one, can do, by the beginnings of the names.
_GPU_ONLY = (
    "bf16",
    "fp16",
    "tf32",
    "gradient_checkpointing",
    "activation_checkpointing",
    "use_liger",
    "deepspeed",
    "fsdp",
    "use_vllm",
    "vllm_",
)


def without_gpu(values: Options) -> dict[str, Any]:
    """Options of a TRL trainer without those that need a GPU, vLLM's among them: the rest can be checked anywhere."""
    return {name: value for name, value in values.items() if not name.startswith(_GPU_ONLY)}
