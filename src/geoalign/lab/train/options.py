"""The options of TRL's trainers: which are passed on, which are set here, and what this project's defaults are.

Here only names and types are checked, by TRL's own annotations; what a value may be is TRL's to say.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from transformers.integrations import get_reporting_integration_callbacks
from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.errors import ConfigError
from geoalign.lab.models.processes import Processes
from geoalign.lab.train.prompts import generation_shape
from geoalign.settings.loading import check_keys
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.shown import brief, shown

# What a run folder and its resumption decide themselves, with the setting to use instead.
_SET_HERE = {
    "output_dir": "output.folder",
    "save_strategy": "save_steps",
    "save_total_limit": "output.keep_checkpoints",
    "save_only_model": "nothing (a checkpoint must hold all that --resume needs)",
    "load_best_model_at_end": "nothing (the last weights are the run's)",
    "resume_from_checkpoint": "--resume",
    "ignore_data_skip": "nothing (--resume must see the same data)",
    "eval_strategy": "evaluation.every",
    "eval_steps": "evaluation.every",
    "do_eval": "evaluation",
    "disable_tqdm": "nothing (the progress bar is this project's)",
    "logging_strategy": "logging_steps",
    "restore_callback_states_from_checkpoint": "nothing",
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

_SFT: dict[str, Any] = {
    **_SUPERVISED,
    "max_steps": 200,
    "learning_rate": 3e-3,
    "packing": False,
    # TRL refuses a completion-only loss for data without a prompt column; ours always have one.
    "completion_only_loss": True,
}

# The coefficient keeps the scores around zero; the loss itself knows differences only.
_REWARD_MODEL: dict[str, Any] = {
    **_SUPERVISED,
    "max_steps": 300,
    "learning_rate": 1e-3,
    "center_rewards_coefficient": 0.01,
}

_GRPO: dict[str, Any] = {
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


def sft_options(
    values: Options, *, seed: int, folder: Path, locations: Locations = NOWHERE, bf16: bool = False
) -> SFTConfig:
    """TRL's `SFTConfig` from the `sft` section.

    Args:
        bf16: whether a CPU computes in bfloat16 where the section does not say; the weights are float32 either way.

    Raises:
        ConfigError: an unknown option (with the nearest known one), one that is set here, or one that TRL refuses.
    """
    options: SFTConfig = _made(SFTConfig, "sft", {**_SFT, "data_seed": seed}, values, seed, folder, locations, bf16)
    _check_save_steps("sft", options, 1, "", locations)
    return options


def reward_model_options(
    values: Options,
    *,
    seed: int,
    folder: Path,
    locations: Locations = NOWHERE,
    bf16: bool = False,
    section: str = "reward_model",
) -> RewardConfig:
    """TRL's `RewardConfig` from the section `reward_model` or `gold_model`, as `sft_options`."""
    defaults = {**_REWARD_MODEL, "data_seed": seed}
    options: RewardConfig = _made(RewardConfig, section, defaults, values, seed, folder, locations, bf16)
    _check_save_steps(section, options, 1, "", locations)
    return options


def grpo_options(
    values: Options, *, seed: int, folder: Path, locations: Locations = NOWHERE, bf16: bool = False
) -> GRPOConfig:
    """TRL's `GRPOConfig` from the `grpo` section, as `sft_options`.

    TRL goes on from a checkpoint bit for bit only where it would generate anew anyway, so checkpoints lie there:
    `save_steps` defaults to a generation boundary near 20 updates, and any other place is refused.
    """
    defaults = {**_GRPO, "save_steps": 1}
    if "generation_batch_size" in values or "gradient_accumulation_steps" in values:
        defaults.pop("steps_per_generation")
    if "num_train_epochs" in values and "max_steps" not in values:
        defaults["max_steps"] = -1
    options: GRPOConfig = _made(GRPOConfig, "grpo", defaults, values, seed, folder, locations, bf16)
    between = generation_shape(options, locations).updates
    if "save_steps" not in values:
        options.save_steps = between * math.ceil(20 / between)
    why = " (updates per generation, because a run resumes bit for bit only there)"
    _check_save_steps("grpo", options, between, why, locations)
    return options


def _check_save_steps(section: str, options: Any, unit: int, why: str, locations: Locations) -> None:
    """Raises ConfigError unless checkpoints lie at multiples of `unit`, and where metrics have just been logged."""
    key, value = f"{section}.save_steps", options.save_steps
    where = f"{locations.prefix(key)}{key}"
    if value != int(value) or value < 1 or value % unit:
        raise ConfigError(f"{where}: expected a multiple of {unit}{why}, got {value}")
    logging = options.logging_steps
    if logging != int(logging) or logging < 1 or value % logging:
        raise ConfigError(
            f"{where}: expected a multiple of {section}.logging_steps = {logging} (a whole number), so that no "
            f"metric is half collected in a checkpoint, got {value}"
        )


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


def check_options(kind: Any, section: str, values: Options, locations: Locations = NOWHERE) -> None:
    """Raises ConfigError for an option that `kind`, TRL's class, does not know, one that is set here, or a value of
    another type than TRL says; works on a GPU and off it."""
    known = {item.name: item for item in dataclasses.fields(kind) if item.init}
    for name, instead in _SET_HERE.items():
        if name in values:
            where = f"{locations.prefix(f'{section}.{name}')}{section}.{name}"
            raise ConfigError(f"{where}: expected to be left out (use {instead}), got {shown(values[name])}")
    check_keys(values, known, section, locations)
    hints = get_type_hints(kind)
    for name, value in values.items():
        if value is None and known[name].default is None:
            continue
        try:
            TypeAdapter(hints[name], config=_EXACT).validate_python(value)
        except ValidationError as error:
            where = f"{locations.prefix(f'{section}.{name}')}{section}.{name}"
            expected = getattr(hints[name], "__name__", str(hints[name]))
            raise ConfigError(f"{where}: expected {expected} (TRL's {kind.__name__}), got {shown(value)}") from error
    if "trust_remote_code" in (values.get("model_init_kwargs") or {}):
        key = f"{section}.model_init_kwargs.trust_remote_code"
        raise ConfigError(f"{locations.prefix(key)}{key}: expected to be left out (use model.trust_remote_code)")


def _made(
    kind: Any,
    section: str,
    defaults: Options,
    values: Options,
    seed: int,
    folder: Path,
    locations: Locations,
    bf16: bool,
) -> Any:
    """TRL's options of one section, or a ConfigError that names the option at fault."""
    check_options(kind, section, values, locations)
    defaults = {**defaults, **_device(bf16), "seed": seed, "output_dir": str(folder)}
    try:
        return _checked(kind, {**defaults, **values})
    except Exception as error:  # TRL's checks raise whatever they meet: ZeroDivisionError, KeyError, OSError
        name = _at_fault(kind, defaults, values)
        key = section if name is None else f"{section}.{name}"
        said = f"{type(error).__name__} from TRL: {brief(error)}"
        raise ConfigError(f"{locations.prefix(key)}{key}: {said}") from error


def _checked(kind: Any, values: Options) -> Any:
    options = kind(**values)
    for callback in get_reporting_integration_callbacks(options.report_to):
        callback()  # says that its package is absent, which the trainer would only after the warm start
    return options


def _at_fault(kind: Any, defaults: Options, values: Options) -> str | None:
    """The option without which TRL takes the others; None where there is no such one, or several."""
    faulty = []
    for name in values:
        with suppress(Exception):
            _checked(kind, {**defaults, **{other: value for other, value in values.items() if other != name}})
            faulty.append(name)
    return faulty[0] if len(faulty) == 1 else None
