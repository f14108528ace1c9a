"""What the options of TRL's trainers may be. TRL's dataclasses take any value, and many fail late or never."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from geoalign.errors import ConfigError
from geoalign.settings.exact import strict_json
from geoalign.settings.locations import Locations
from geoalign.shown import brief, shown


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Parts of an annotation such as `float | None`, with what is to be expected of a value.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", _is_whole),
    "float": ("a number", _is_number),
    "str": ("text", lambda value: isinstance(value, str)),
    "dict": ("a section", lambda value: isinstance(value, dict)),
    "list[str]": ("a list of texts", lambda value: _all(value, str)),
    "list[float]": ("a list of numbers", lambda value: isinstance(value, list) and all(map(_is_number, value))),
}

# Lowest values, and highest ones where there are any, of the options that mean nothing beyond them. TRL itself refuses
# num_generations below 2; max_steps = -1 stands for num_train_epochs.
_AT_LEAST: dict[str, float] = {
    **dict.fromkeys(
        (
            "per_device_train_batch_size",
            "per_device_eval_batch_size",
            "gradient_accumulation_steps",
            "steps_per_generation",
            "generation_batch_size",
            "num_generations",
            "num_generations_eval",
            "num_iterations",
            "max_completion_length",
            "max_length",
            "vllm_tensor_parallel_size",
            "vllm_server_port",
            "vllm_group_port",
            "vllm_max_model_length",
            "dataset_num_proc",
        ),
        1,
    ),
    **dict.fromkeys(
        (
            "learning_rate",
            "warmup_steps",
            "weight_decay",
            "max_grad_norm",
            "adam_beta1",
            "adam_beta2",
            "adam_epsilon",
            "label_smoothing_factor",
            "beta",
            "epsilon",
            "epsilon_high",
            "top_p",
            "min_p",
            "seed",
            "data_seed",
            "dataloader_num_workers",
            "vllm_gpu_memory_utilization",
            "vllm_server_timeout",
            "center_rewards_coefficient",
        ),
        0,
    ),
}
_AT_MOST: dict[str, float] = {
    "adam_beta1": 1,
    "adam_beta2": 1,
    "label_smoothing_factor": 1,
    "top_p": 1,
    "min_p": 1,
    "vllm_gpu_memory_utilization": 1,
    "vllm_server_port": 65535,
    "vllm_group_port": 65535,
    "seed": 2**32 - 1,
    "data_seed": 2**32 - 1,
    "dataloader_num_workers": 1024,
    "dataset_num_proc": 1024,
}
_ABOVE_ZERO = ("temperature", "repetition_penalty", "num_train_epochs", "vllm_gpu_memory_utilization", "top_p")
# 5e-324 is above zero, and rewards or logits divided by it are infinite.
_SMALLEST = 1e-6


def check_value(key: str, kind: type, item: dataclasses.Field[Any], value: Any, locations: Locations) -> None:
    """Checks one option of the settings before TRL sees it: the field `item` of the class `kind`.

    Raises:
        ConfigError: it is of another type than TRL says (a boolean is no number, a number no boolean), not finite, or
            out of range; the message has the file and the line.
    """
    where, names = f"{locations.prefix(key)}{key}", _names(kind, item)
    if value is None:
        if "None" not in names and item.default is not None:
            raise ConfigError(f"{where}: expected a value, got null")
        return
    kinds = [_KINDS.get(name) for name in sorted(names - {"None"})]
    if None not in kinds and not any(right(value) for _, right in filter(None, kinds)):
        expected = " or ".join(dict.fromkeys(words for words, _ in filter(None, kinds)))
        raise ConfigError(f"{where}: expected {expected}, got {shown(value)}")
    if isinstance(value, str) and "dict" in names and value.lstrip().startswith("{"):
        try:
            strict_json(value)
        except ValueError as error:
            raise ConfigError(f"{where}: expected a section, or JSON, got {brief(error)}") from error
    if _is_number(value):
        _check_range(where, item.name, value)


def _check_range(where: str, name: str, value: float) -> None:
    if name in _ABOVE_ZERO and value < _SMALLEST:
        raise ConfigError(f"{where}: expected a number above 0 (at least {_SMALLEST:g}), got {value}")
    if value < _AT_LEAST.get(name, -math.inf):
        raise ConfigError(f"{where}: expected at least {_AT_LEAST[name]:g}, got {value}")
    if value > _AT_MOST.get(name, math.inf):
        raise ConfigError(f"{where}: expected at most {_AT_MOST[name]:g}, got {value}")
    if name == "max_steps" and value < 1 and value != -1:
        raise ConfigError(f"{where}: expected at least 1, or -1 for so many as num_train_epochs, got {value}")


def _names(kind: type, item: dataclasses.Field[Any]) -> set[str]:
    """The parts of an option's annotation: `float`, `None`; `dict` and `str` also for what is written another way.

    As it stands in the class: transformers' argument parser writes other types into the fields themselves.
    """
    written = [parent.__annotations__ for parent in kind.__mro__ if "__annotations__" in vars(parent)]
    annotation = next((given[item.name] for given in written if item.name in given), item.type)
    text = annotation.__name__ if type(annotation) is type else str(annotation)
    return {_name(part.strip()) for part in text.split("|")}


def _name(part: str) -> str:
    if part.startswith("dict"):
        return "dict"
    # The enumerations of transformers are given by their texts.
    return "str" if part.startswith("transformers.") else part


def _all(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)
