"""The benchmark's table, on a terminal and as JSON."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Sequence

import torch
from rich.table import Table

from geoalign.lab.bench.curation import Measured
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
