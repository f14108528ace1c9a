"""What `conclude` makes of a folder's results: the table on the terminal and in table.json."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from geoalign.lab.compare.table import conclude
from geoalign.lab.store.comparison import COMPACT, ComparisonFolder

EVIDENCE = Path(__file__).parents[3] / "evidence" / "math_depth"


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "comparison"
    shutil.copytree(EVIDENCE, root)
    return root


def concluded(root):
    console = Console(record=True, width=200)
    conclude(ComparisonFolder(root), console)
    return console.export_text(), json.loads((root / "table.json").read_text())["notes"]


@pytest.mark.usefixtures("undrawn")
def test_results_that_are_not_planned_are_left_out_and_told_of(folder):
    said, notes = concluded(folder)
    assert "left out" not in said
    assert not any("left out" in note for note in notes)
    before = (folder / "table.csv").read_text()

    rows = pq.read_table(folder / COMPACT)["result"].to_pylist()
    rows += [json.dumps({**json.loads(rows[0]), "seed": seed}) for seed in (97, 98)]
    pq.write_table(pa.table({"result": rows}), folder / COMPACT)
    said, notes = concluded(folder)
    note = "Results of 2 cells that are not in compare.yaml are left out."
    assert note in said
    assert note in notes
    assert (folder / "table.csv").read_text() == before
