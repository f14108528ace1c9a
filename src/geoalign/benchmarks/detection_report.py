"""The detection benchmark's tables, on a terminal and as JSON."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence

from rich.table import Table

from geoalign.benchmarks.detection import Detected
from geoalign.benchmarks.report import machine, nulls
from geoalign.statistics import Interval
from geoalign.terminal import Console


def print_detection(console: Console, rows: Sequence[Detected]) -> None:
    """One table a kind of batch: means over batches with 95% intervals, best area first."""
    for name, members in itertools.groupby(rows, key=lambda row: row.batch):
        kind = sorted(members, key=lambda row: -row.auroc.estimate)
        title = (
            f"{name}: corrupted rewards found, {kind[0].batches} batches; "
            f"without information AUROC 0.50, AUPRC {kind[0].base_rate:.2f}"
        )
        table = Table(title=title, title_justify="left")
        table.add_column("score", no_wrap=True)
        table.add_column("AUROC (95% interval)", justify="right")
        table.add_column("AUPRC (95% interval)", justify="right")
        for row in kind:
            table.add_row(row.score, _interval(row.auroc), _interval(row.average_precision))
        console.print(table)


def detection_json(rows: Sequence[Detected]) -> str:
    """Everything measured; NaN as null."""
    record = {"machine": machine(), "detection": [dataclasses.asdict(row) for row in rows]}
    return json.dumps(nulls(record), indent=2)


def _interval(found: Interval) -> str:
    if found.low != found.low:
        return f"{found.estimate:.2f}"
    return f"{found.estimate:.2f} ({found.low:.2f} to {found.high:.2f})"
