"""Settings laid over others: what an arm or a level of a comparison may change, and what it may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.config.layers import merged_settings
from geoalign.lab.config.loading import parse_run_config
from geoalign.lab.config.run import RunConfig
from geoalign.settings.loading import plain_settings
from geoalign.settings.locations import Locations
from geoalign.shown import shown_key

_WARM_START = "all runs of a seed start from one warm start, made from the settings under run"
_FOLDER = "a comparison lays out its own folders and keeps what its table needs"
_MEASURED = "all runs of a comparison are measured alike: set it under run"

# Sections that neither an arm nor a level may set, with the reason.
_FIXED = {
    "model": _WARM_START,
    "task": _WARM_START,
    "sft": _WARM_START,
    "reward_model": _WARM_START,
    "gold_model": _WARM_START,
    "reward_head": _WARM_START,
    "seed": "every arm runs with the same seeds: set seeds",
    "max_prompt_length": _WARM_START,
    "evaluation": _MEASURED,
    "launch": "a comparison launches its runs itself",
    "output": _FOLDER,
}
# Options of `grpo` that decide which prompts are answered, how often, how, and how many updates follow.
GENERATION = (
    "num_generations",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "generation_batch_size",
    "num_iterations",
    "max_steps",
    "num_train_epochs",
    "max_completion_length",
    "shuffle_dataset",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "generation_kwargs",
    "chat_template_kwargs",
)


def check_arm(name: str, settings: Mapping[str, Any], locations: Locations) -> None:
    """Raises ConfigError, by name, for a setting that would make the arm's runs incomparable with the others'."""
    path = f"arms.{name}"
    _check_fixed(path, settings, locations)
    grpo = settings.get("grpo")
    for option in grpo if isinstance(grpo, Mapping) else ():
        if option in GENERATION:
            raise _refused(
                f"{path}.grpo.{option}", "all arms answer the same prompts in the same way: set it under run", locations
            )


def check_level(name: str, settings: Mapping[str, Any], locations: Locations) -> None:
    """Raises ConfigError, by name, for a setting that a level of a comparison may not change."""
    path = f"levels.{name}"
    _check_fixed(path, settings, locations)
    if "curator" in settings:
        raise _refused(f"{path}.curator", "curators are what arms differ in: set it under arms", locations)


def resolved_run(
    config: CompareConfig, level: str, arm: str, seed: int, locations: Locations | None = None
) -> RunConfig:
    """The settings of one run of a comparison.

    The task's problems are those of the warm start that the run begins with; the seed decides their order, the draws
    of the model and the corruption.

    Raises:
        ConfigError: the arm's or level's settings are wrong; the message has the file and the line.
    """
    base = plain_settings(config.run)
    data = merged_settings(merged_settings(base, config.levels[level]), config.arms[arm])
    data["seed"] = seed
    data["output"] = {**base["output"], "folder": None, "rollouts": True, "details_every": None}
    if data["task"].get("seed", 0) is None:
        data["task"] = {**data["task"], "seed": warm_start_seed(config, seed)}
    return parse_run_config(data, _merged_locations(locations or Locations(), level, arm))


def warm_start_seed(config: CompareConfig, seed: int) -> int:
    """The seed of the warm start (and reward model) that the runs of a seed begin with."""
    block = 0 if config.seeds_per_warm_start is None else seed // config.seeds_per_warm_start
    return config.run.seed + block


def warm_start_run(config: CompareConfig, seed: int | None = None) -> RunConfig:
    """The settings of a run whose warm start others share: the base's, with the warm start's seed if one is given."""
    base = plain_settings(config.run)
    base["seed"] = config.run.seed if seed is None else seed
    if base["task"].get("seed", 0) is None:
        base["task"] = {**base["task"], "seed": base["seed"]}
    base["output"] = {**base["output"], "folder": None}
    return parse_run_config(base)


def locations_below(locations: Locations, section: str) -> Locations:
    """The locations of the keys inside a section, without its name."""
    start = f"{section}."
    return Locations(
        {key.removeprefix(start): location for key, location in locations.by_key.items() if key.startswith(start)}
    )


def _check_fixed(path: str, settings: Mapping[str, Any], locations: Locations) -> None:
    for section in settings:
        if section in _FIXED:
            raise _refused(f"{path}.{section}", _FIXED[section], locations)


def _refused(key: str, reason: str, locations: Locations) -> ConfigError:
    return ConfigError(f"{locations.prefix(key)}{shown_key(key)}: expected to be left out, got a value: {reason}")


def _merged_locations(locations: Locations, level: str, arm: str) -> Locations:
    """Where each setting of an arm's run at a level was written: the arm, else the level, else the base."""
    merged: dict[str, str] = {}
    for section in ("run", f"levels.{level}", f"arms.{arm}"):
        merged |= locations_below(locations, section).by_key
    # A section named only as null (`geoalign:`) has no keys of its own; its own line is the best location.
    if not locations_below(locations, f"arms.{arm}").by_key and (location := locations.by_key.get(f"arms.{arm}")):
        merged["curator"] = location
        merged["curator.type"] = location
    return Locations(merged)
