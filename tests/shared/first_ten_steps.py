"""What docs/first_ten_steps.md says that an engine logs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "first_ten_steps.md"


def engine_metrics(engine):
    """The metrics that the page's table of engines has in the column of `engine`."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    header = next(number for number, row in enumerate(cells) if {"TRL", "ms-swift", "verl"} <= set(row))
    column = cells[header].index(engine)
    named: set[str] = set()
    for row in cells_below(cells, header):
        named.update(re.findall(r"`([a-z_]+(?:/[a-z_]+)*)`", row[column]))
    assert len(named) >= 4
    return named


def cells_below(cells, header):
    """The rows of the table with this header; the page's next table begins a row before its line of dashes."""
    behind = cells[header + 2 :]
    for number, row in enumerate(behind):
        if set(row[0]) == {"-"}:
            return behind[: number - 1]
    return behind
