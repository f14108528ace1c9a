"""What a comparison would run: every setting checked, nothing trained or written."""

from __future__ import annotations

from rich.table import Table

from geoalign.lab.compare.checks import checked_shapes
from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.config.comparison_plan import make_plan
from geoalign.lab.terminal import Console
from geoalign.settings.locations import Locations


def dry_run(config: CompareConfig, console: Console, locations: Locations | None = None) -> None:
    """Checks every run's settings as the comparison itself does, and prints how many runs of what it has.

    Raises:
        ConfigError: a run could not start; the message begins with its name.
    """
    plan = make_plan(config, locations)
    shapes = checked_shapes({run.key: {"name": run.cell.name, "settings": run.settings} for run in plan})
    starts = list(dict.fromkeys(run.warm_start_seed for run in plan))
    table = Table(title="Plan", title_justify="left", show_header=False)
    rows = [
        ("runs", f"{len(plan)} of {len(config.arms)} arms, {len(config.levels)} levels, {len(config.seeds)} seeds"),
        ("updates a run", ", ".join(str(n) for n in sorted({shape["max_steps"] for shape in shapes.values()}))),
        ("warm starts", f"{len(starts)}, of seeds {', '.join(map(str, starts))}"),
        ("compared", f"{config.metric}, mean of the last {config.last_evaluations} evaluations"),
        ("primary", "; ".join(f"{item.arm} against {item.against}" for item in config.primary) or "none"),
    ]
    for level in config.levels:
        arms = [arm for arm in config.arms if level in config.arms_at.get(arm, config.levels)]
        rows.append((level, ", ".join(arms)))
    for name, words in rows:
        table.add_row(name, words)
    console.print(table)
    console.print("Nothing was trained or written.", highlight=False)
