"""The runs of a comparison: every cell of arms, levels and seeds, and the settings of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.train.read_settings import parse_run_config
from geoalign.lab.train.settings import DEFAULT_TYPES, RunConfig
from geoalign.settings.layers import merged_settings
from geoalign.settings.loading import plain_settings
from geoalign.settings.locations import Locations

_WARM_START = "all runs of a seed start from one warm start, made from the settings under run"


# Sections that neither an arm nor a level may set, with the reason.
_FIXED = {
    **dict.fromkeys(
        ("model", "task", "sft", "reward_model", "gold_model", "reward_head", "max_prompt_length"), _WARM_START
    ),
    "seed": "every arm runs with the same seeds: set seeds",
    "evaluation": "all runs of a comparison are measured alike: set it under run",
    "launch": "a comparison launches its runs itself",
    "output": "a comparison lays out its own folders and keeps what its table needs",
}


# Options of `grpo` that decide which prompts are answered, how often, how, and how many updates follow.
GENERATION = (
    "num_generations", "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation",
    "generation_batch_size", "num_iterations", "max_steps", "num_train_epochs", "max_completion_length",
    "shuffle_dataset", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs",
    "chat_template_kwargs",
)  # fmt: skip


@dataclass(frozen=True)
class CellKey:
    """Which cell of the table: an arm at a level with a seed."""

    level: str
    arm: str
    seed: int

    @property
    def name(self) -> str:
        """`level/arm/seed-3`: its path below `runs` and `results`."""
        return f"{self.level}/{self.arm}/seed-{self.seed}"


@dataclass(frozen=True)
class PlannedRun:
    """One training of the comparison, and the cells that it fills, the first of which names its folder: several where
    settings do not differ (the clean arm is the same at every level). `key` is a hash of what decides its numbers."""

    cells: tuple[CellKey, ...]
    settings: Mapping[str, Any]
    warm_start_seed: int
    key: str

    @property
    def cell(self) -> CellKey:
        return self.cells[0]


def planned_cells(config: CompareConfig) -> list[CellKey]:
    """All arms at all levels, seed after seed: an interrupted comparison has the same seeds of every arm."""
    return [
        CellKey(level, arm, seed)
        for seed in config.seeds
        for level in config.levels
        for arm in config.arms
        if config.planned(arm, level)
    ]


def planned_runs(config: CompareConfig, locations: Locations | None = None) -> list[PlannedRun]:
    """The runs of a comparison in the order of their cells; ConfigError where those of an arm or level are wrong."""
    cells: dict[str, list[CellKey]] = {}
    settings: dict[str, tuple[dict[str, Any], int]] = {}
    for cell in planned_cells(config):
        plain = settings_without_output(
            plain_settings(resolved_run(config, cell.level, cell.arm, cell.seed, locations))
        )
        start = warm_start_seed(config, cell.seed)
        key = settings_key(plain, warm_start_seed=start)
        cells.setdefault(key, []).append(cell)
        settings[key] = (plain, start)
    return [PlannedRun(tuple(members), *settings[key], key) for key, members in cells.items()]


def settings_without_output(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that decide its numbers: all but `output`, which says what is kept."""
    return {name: value for name, value in settings.items() if name != "output"}


def settings_key(settings: Mapping[str, Any], *, warm_start_seed: int) -> str:
    """SHA-256 of a run's settings and the seed of the warm start that it begins with, as 16 hexadecimal digits."""
    text = json.dumps([settings, warm_start_seed], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def check_overlays(config: CompareConfig, locations: Locations) -> None:
    """Raises ConfigError, by name, for a setting that would make the runs of an arm or level incomparable."""
    for section, overlays in (("arms", config.arms), ("levels", config.levels)):
        for name, overlay in overlays.items():
            refused = {key: _FIXED[key] for key in overlay if key in _FIXED}
            if section == "levels" and "curator" in overlay:
                refused["curator"] = "curators are what arms differ in: set it under arms"
            grpo = overlay.get("grpo")
            for option in grpo if section == "arms" and isinstance(grpo, Mapping) else ():
                if option in GENERATION:
                    refused[f"grpo.{option}"] = "all arms answer the same prompts in the same way: set it under run"
            for key, reason in refused.items():
                dotted = f"{section}.{name}.{key}"
                where = f"{locations.prefix(dotted)}{dotted}"
                raise ConfigError(f"{where}: expected to be left out, got a value: {reason}")


def resolved_run(
    config: CompareConfig, level: str, arm: str, seed: int, locations: Locations | None = None
) -> RunConfig:
    """The settings of one run of a comparison; the task's problems are those of its warm start, the seed decides their
    order, the draws of the model and the corruption."""
    settings = plain_settings(config.run)
    at_level = merged_settings(settings, config.levels[level], default_types=DEFAULT_TYPES)
    data = merged_settings(at_level, config.arms[arm], default_types=DEFAULT_TYPES)
    data["output"] = {**data["output"], "rollouts": True, "details_every": None}
    return parse_run_config(
        _of_seed(data, seed, warm_start_seed(config, seed)), _merged_locations(locations or Locations(), level, arm)
    )


def warm_start_seed(config: CompareConfig, seed: int) -> int:
    """The seed of the warm start (and reward model) that the runs of a seed begin with."""
    block = 0 if config.seeds_per_warm_start is None else seed // config.seeds_per_warm_start
    return config.run.seed + block


def warm_start_run(config: CompareConfig, seed: int) -> RunConfig:
    """The settings of a run whose warm start others share: the base's, with the warm start's seed."""
    return parse_run_config(_of_seed(plain_settings(config.run), seed, seed))


def _of_seed(data: dict[str, Any], seed: int, task_seed: int) -> dict[str, Any]:
    data |= {"seed": seed, "output": {**data["output"], "folder": None}}
    if data["task"].get("seed", 0) is None:
        data["task"] = {**data["task"], "seed": task_seed}
    return data


def _merged_locations(locations: Locations, level: str, arm: str) -> Locations:
    """Where each setting of an arm's run at a level was written: the arm, else the level, else the base."""
    merged: dict[str, str] = {}
    for section in ("run.", f"levels.{level}.", f"arms.{arm}."):
        own = {key.removeprefix(section): at for key, at in locations.by_key.items() if key.startswith(section)}
        merged |= own
    # A section named only as null (`geoalign:`) has no keys of its own; its own line is the best location.
    location = locations.by_key.get(f"arms.{arm}")
    if not own and location is not None:
        merged |= {"curator": location, "curator.type": location}
    return Locations(merged)
