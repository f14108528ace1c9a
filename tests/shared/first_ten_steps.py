"""What docs/first_ten_steps.md says that an engine logs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "first_ten_steps.md"


def engine_metrics(engine):
    """The metrics that the page's table of engines has in the column of `engine`."""
    lines = PAGE.read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header = next(number for number, row in enumerate(cells) if {"TRL", "ms-swift", "verl"} <= set(row))
    column = cells[header].index(engine)
    table = cells[header + 2 :]
    length = next((number for number, row in enumerate(table) if set(row[0]) == {"-"}), len(table) + 1) - 1
    named = {name for row in table[:length] for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*)`", row[column])}
    assert len(named) >= 4
    return named
