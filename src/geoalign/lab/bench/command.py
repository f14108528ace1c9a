"""`geoalign bench`: what curation costs here, in a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Sequence

import torch
from rich.table import Table

from geoalign.lab.bench.curation import Measured, Shape, in_fresh_processes, measure
from geoalign.lab.config.requests import BenchRequest
from geoalign.lab.store.files import named
from geoalign.lab.store.json_files import finite
from geoalign.lab.terminal import Console
from geoalign.lab.text import decimals

DEFAULT_SHAPES = ("96x8x2048", "96x16x2048")


def bench(request: BenchRequest, console: Console) -> None:
    """Measures each shape in a process of its own and prints the figures.

    Raises:
        ConfigError: a shape is not written as GROUPSxKxHIDDEN.
    """
    shapes = [Shape.parse(text) for text in request.shapes or DEFAULT_SHAPES]
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    with console.status(f"Measuring {len(shapes)} shapes"):
        cost = in_fresh_processes(measure, shapes, request.device, request.repeats)
    print_cost(console, cost)
    if request.json_file is not None:
        with named(request.json_file):
            request.json_file.write_text(as_json(cost), encoding="utf-8")
        console.print(f"Written to {request.json_file}", soft_wrap=True)


def machine() -> dict[str, str | int]:
    """What the figures were measured on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def print_cost(console: Console, rows: Sequence[Measured]) -> None:
    """Time and memory by shape."""
    table = Table(title="One curate call at default settings", title_justify="left")
    for name in ("groups x K", "pairs", "GeoAlign: s", "extra MB", "denoise: s", "extra MB"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            str(row.shape),
            f"{row.pairs:,}",
            decimals(row.seconds),
            decimals(row.extra_megabytes, 0),
            decimals(row.denoise_seconds),
            decimals(row.denoise_megabytes, 0),
        )
    console.print(table)


def as_json(cost: Sequence[Measured]) -> str:
    """Everything measured; NaN as null."""
    return json.dumps(finite({"machine": machine(), "cost": [dataclasses.asdict(row) for row in cost]}), indent=2)
