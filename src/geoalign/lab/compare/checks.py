"""What is checked of every run of a comparison before anything is trained, and the dry run, which does no more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from geoalign.console.terminal import Console
from geoalign.errors import ConfigError
from geoalign.lab.compare.plan import planned_runs
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.data.task import Task
from geoalign.lab.data.tasks import make_task
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.plan import make_plan
from geoalign.lab.train.read_settings import parse_run_config
from geoalign.settings.locations import Locations
from geoalign.text import seed_ranges


def checked_shapes(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """How many updates each run makes, and how many on each generation, by the run's key.

    Runs that differ in nothing but their seed are checked once; a task is made once for all runs that share it.
    """
    tasks: dict[str, Task] = {}
    by_settings: dict[str, dict[str, int]] = {}
    shapes = {}
    for key, run in runs.items():
        settings = dict(run["settings"])
        same = json.dumps({**settings, "seed": None}, sort_keys=True)
        if same not in by_settings:
            try:
                by_settings[same] = shape_of(settings, tasks)
            except ConfigError as error:
                raise ConfigError(f"{run['name']}: {error}") from error
        shapes[key] = by_settings[same]
    return shapes


def shape_of(settings: Mapping[str, Any], tasks: dict[str, Task]) -> dict[str, int]:
    """How many updates a run makes, and how many on each generation; `tasks` are those made before, by settings."""
    config = parse_run_config(settings)
    if config.launch.processes not in (None, 1):
        raise ConfigError(
            "run.launch.processes: expected nothing in a comparison, each run of which is one process, "
            f"got {config.launch.processes}"
        )
    name = json.dumps([settings.get("task"), settings.get("seed")], sort_keys=True)
    if (settings.get("task") or {}).get("seed") is not None:
        name = json.dumps(settings["task"], sort_keys=True)
    if name not in tasks:
        tasks[name] = make_task(config.task, seed=config.seed)
    plan = make_plan(config, RunFolder(Path("unused")), Console(quiet=True), task=tasks[name])
    return {"max_steps": plan.grpo.max_steps, "updates_per_generation": plan.generation.updates}


def dry_run_comparison(config: CompareConfig, console: Console, locations: Locations | None = None) -> None:
    """Checks every run's settings as the comparison itself does, and prints how many runs of what it has."""
    plan = planned_runs(config, locations)
    shapes = checked_shapes({run.key: {"name": run.cell.name, "settings": run.settings} for run in plan})
    starts = list(dict.fromkeys(run.warm_start_seed for run in plan))
    table = Table(title="Plan", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    rows = [
        ("runs", str(len(plan))),
        ("seeds", seed_ranges(config.seeds)),
        ("updates a run", ", ".join(str(n) for n in sorted({shape["max_steps"] for shape in shapes.values()}))),
        ("warm starts", f"{len(starts)}, of seed {seed_ranges(starts)}"),
        ("compared", f"{config.metric}, mean of the last {config.last_evaluations} evaluations"),
        ("planned beforehand", "; ".join(f"{item.arm} against {item.against}" for item in config.primary) or "none"),
    ]
    for level in config.levels:
        arms = [arm for arm in config.arms if level in config.arms_at.get(arm, config.levels)]
        rows.append((f"arms at {level}", ", ".join(arms)))
    for name, words in rows:
        table.add_row(name, words)
    console.print(table)
    console.print("Nothing was trained or written.", highlight=False)
