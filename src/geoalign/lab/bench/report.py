"""The benchmark's tables, on a terminal and as JSON."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Sequence

import torch
from rich.table import Table

from geoalign.lab.bench.curation import Measured
from geoalign.lab.bench.quality import Quality
from geoalign.lab.store.json_files import finite
from geoalign.lab.terminal import Console
from geoalign.lab.text import decimals


def machine() -> dict[str, str | int]:
    """What the figures were measured on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def print_cost(console: Console, rows: Sequence[Measured]) -> None:
    """Time and memory by shape; the ratio compares both forms at equal widths, pairs and steps; then `denoise`."""
    steps = rows[0].equal_steps if rows else 0
    table = Table(title="One curate call: default settings, and against the naive form", title_justify="left")
    for name in ("groups x K", "pairs", "seconds", "extra MB", f"{steps} steps, all pairs: s", "naive s", "ratio"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            str(row.shape),
            f"{row.pairs:,}",
            decimals(row.seconds),
            decimals(row.extra_megabytes, 0),
            decimals(row.equal_seconds),
            decimals(row.naive_seconds),
            decimals(row.naive_seconds / row.equal_seconds),
        )
    console.print(table)
    denoise = Table(title="One call of denoise, default settings, fitted on batches before", title_justify="left")
    for name in ("groups x K", "seconds", "extra MB", "ratio to GeoAlign's seconds"):
        denoise.add_column(name, justify="right")
    for row in rows:
        ratio = decimals(row.denoise_seconds / row.seconds)
        denoise.add_row(str(row.shape), decimals(row.denoise_seconds), decimals(row.denoise_megabytes, 0), ratio)
    console.print(denoise)


def print_quality(console: Console, rows: Sequence[Quality]) -> None:
    """What the cheaper steps cost: mean over seeds, lowest and highest in brackets."""
    table = Table(title="Stepping over a subset of groups against all groups", title_justify="left")
    for name in ("states", "each step", "seconds", "new-group accuracy", "AUROC, corrupted", "GDI rank correlation"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.states,
            row.stepping,
            decimals(row.seconds),
            _spread(row.accuracy),
            _spread(row.auroc),
            _spread(row.agreement),
        )
    console.print(table)


def as_json(cost: Sequence[Measured], quality: Sequence[Quality]) -> str:
    """Everything measured; NaN as null."""
    record = {
        "machine": machine(),
        "cost": [dataclasses.asdict(row) for row in cost],
        "quality": [dataclasses.asdict(row) for row in quality],
    }
    return json.dumps(finite(record), indent=2)


def _spread(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3f} ({min(values):.3f} to {max(values):.3f})"
