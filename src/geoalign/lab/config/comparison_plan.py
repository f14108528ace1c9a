"""Which runs a comparison consists of, and in which order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.lab.config.arms import resolved_run, warm_start_seed
from geoalign.lab.config.compare import CompareConfig
from geoalign.settings.loading import plain_settings
from geoalign.settings.locations import Locations


@dataclass(frozen=True)
class Cell:
    """One place of the table: an arm at a level with a seed."""

    level: str
    arm: str
    seed: int

    @property
    def name(self) -> str:
        """`level/arm/seed-3`: its place below `runs` and `results`."""
        return f"{self.level}/{self.arm}/seed-{self.seed}"


@dataclass(frozen=True)
class PlannedRun:
    """One training of the comparison, and the cells that it fills.

    More than one where settings do not differ: the clean arm is the same at every level of corruption.

    Attributes:
        cells: the first names the run's folder.
        settings: the resolved settings of the run as plain data.
        warm_start_seed: seed of the warm start that it begins with.
        key: hash of everything that decides its numbers.
    """

    cells: tuple[Cell, ...]
    settings: Mapping[str, Any]
    warm_start_seed: int
    key: str

    @property
    def cell(self) -> Cell:
        """The cell that the run is named for."""
        return self.cells[0]


def make_plan(config: CompareConfig, locations: Locations | None = None) -> list[PlannedRun]:
    """The runs of a comparison in their order: all arms at all levels of the first seed, then of the next.

    So a comparison that was broken off is balanced: what it has, it has of every arm.

    Raises:
        ConfigError: the settings of an arm or level are wrong.
    """
    cells: dict[str, list[Cell]] = {}
    settings: dict[str, tuple[dict[str, Any], int]] = {}
    for seed in config.seeds:
        for level in config.levels:
            for arm in config.arms:
                if level not in config.arms_at.get(arm, config.levels):
                    continue
                plain = computed(plain_settings(resolved_run(config, level, arm, seed, locations)))
                start = warm_start_seed(config, seed)
                key = settings_key(plain, warm_start_seed=start)
                cells.setdefault(key, []).append(Cell(level, arm, seed))
                settings[key] = (plain, start)
    return [PlannedRun(tuple(members), *settings[key], key) for key, members in cells.items()]


def computed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that decide its numbers: all but `output`, which says what is kept."""
    return {name: value for name, value in settings.items() if name != "output"}


def settings_key(settings: Mapping[str, Any], *, warm_start_seed: int) -> str:
    """SHA-256 of a run's settings and the seed of the warm start that it begins with, as 16 hexadecimal digits."""
    text = json.dumps([settings, warm_start_seed], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
