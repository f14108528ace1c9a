"""The cosine of the advantages with those of the true rewards, on a comparison's page, terminal and CSV."""

import csv
import re

import pytest
from rich.console import Console

from geoalign.lab.compare.table import conclude
from geoalign.lab.reports.comparison import build_comparison_report
from geoalign.lab.store.comparison import ComparisonFolder

HALF = 50


def concluded(root):
    """What the terminal shows, the CSV's rows and the page's lines with arms in the detection table."""
    console = Console(record=True, width=200)
    folder = ComparisonFolder(root)
    conclude(folder, console)
    with folder.table_csv.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    page = build_comparison_report(root).read_text(encoding="utf-8")
    table = page[page.index("Finding corrupted rewards") :]
    return console.export_text(), rows, table[: table.index("</table>")]


@pytest.mark.usefixtures("undrawn")
def test_it_stands_beside_detection(make_comparison):
    # Every second step has a generation: 50 of 0.625 and 50 without; as the rewards came 0.375.
    series = {"advantage_cosine": [0.625, None] * HALF, "observed_advantage_cosine": [0.375, None] * HALF}
    root = make_comparison({"flip": {"grpo": 0.4, "geoalign": 0.45}}, series=series)
    terminal, rows, page = concluded(root)
    (line,) = (line for line in terminal.splitlines() if "geoalign" in line and "0.625" in line)
    assert re.split(r"\s*│\s*", line.strip(" │"))[-2:] == ["0.625", "0.375"]
    assert [row["advantage_cosine_mean"] for row in rows] == ["0.625", "0.625"]
    assert [row["observed_advantage_cosine_mean"] for row in rows] == ["0.375", "0.375"]
    assert page.count("0.625") == page.count("0.375") >= 2
