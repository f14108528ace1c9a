"""The detection benchmark's tables, on a terminal, as JSON, and as the table of benchmarks/detection.md.

The last one is made from what `geoalign bench --detection --json FILE` wrote:
python -m geoalign.lab.bench.detection_report FILE
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from geoalign.lab.bench.curators import WARM_UP, Curated
from geoalign.lab.bench.detection import Detected
from geoalign.lab.bench.report import machine
from geoalign.lab.store.json_files import finite
from geoalign.lab.terminal import Console, say_lines
from geoalign.lab.text import decimals, estimate, percent

# The columns of the table in the documentation: title and score.
COLUMNS = {
    "the paper's: sum, in sample": "GDI sum, paper's, in sample",
    "the same, cross-fitted": "GDI sum, paper's, cross fit",
    "the paper's without early stop": "GDI sum, no early stop, in sample",
    "without early stop, cross-fitted": "GDI sum, no early stop, cross fit",
    "excess, default projector, cross-fitted": "GDI excess, default, cross fit",
    "sum, raw": "GDI sum, raw, in sample",
    "mean, raw": "GDI mean, raw, in sample",
    "pair count": "pair count",
    "distance to the mean": "distance to the group mean",
}


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
            table.add_row(row.score, estimate(row.auroc, decimals), estimate(row.average_precision, decimals))
        console.print(table)


def print_curators(console: Console, rows: Sequence[Curated]) -> None:
    """One table a kind of batch: what curators make of the rewards, best cosine first."""
    for name, members in itertools.groupby(rows, key=lambda row: row.batch):
        kind = sorted(members, key=_worst_last)
        title = (
            f"{name}: cosine with the true rewards' advantages, {kind[0].batches} batches after {WARM_UP} "
            f"(as the rewards came: {decimals(kind[0].observed_advantage_cosine.estimate, 3)})"
        )
        table = Table(title=title, title_justify="left")
        table.add_column("curator", no_wrap=True)
        for column in ("cosine (95% interval)", "AUROC", "precision", "recall", "s/batch"):
            table.add_column(column, justify="right")
        for row in kind:
            table.add_row(
                row.curator,
                estimate(row.advantage_cosine, lambda value: decimals(value, 3)),
                decimals(row.auroc.estimate),
                percent(row.precision),
                percent(row.recall),
                decimals(row.seconds),
            )
        console.print(table)


def _worst_last(row: Curated) -> float:
    cosine = row.advantage_cosine.estimate
    return math.inf if math.isnan(cosine) else -cosine


def detection_json(rows: Sequence[Detected], curated: Sequence[Curated] = ()) -> str:
    """Everything measured; NaN as null."""
    record = {
        "machine": machine(),
        "detection": [dataclasses.asdict(row) for row in rows],
        "curators": [dataclasses.asdict(row) for row in curated],
    }
    return json.dumps(finite(record), indent=2)


def markdown(record: Mapping[str, Any]) -> str:
    """AUROC / average precision of the scores in COLUMNS, a line a kind of batch, from what `detection_json` wrote."""
    lines = [f"| batch | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, members in itertools.groupby(record["detection"], key=lambda row: row["batch"]):
        measured = {row["score"]: row for row in members}
        pairs = [
            f"{measured[score]['auroc']['estimate']:.2f} / {measured[score]['average_precision']['estimate']:.2f}"
            for score in COLUMNS.values()
        ]
        lines.append(f"| {name} | {' | '.join(pairs)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    say_lines(Console(), markdown(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))) + "\n")
