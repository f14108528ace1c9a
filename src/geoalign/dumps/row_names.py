"""How a row of a file is called: by its line, or by its number where a row is no line."""

from __future__ import annotations

from pathlib import Path

# Files whose rows are counted as rows, not as lines.
_COUNTED_IN_ROWS = (".parquet", ".json", ".json.gz", ".eval", ".db")


def counted_in(path: Path) -> str:
    """What the rows of a file are counted in: "line", or "row" where a row is no line."""
    return "row" if path.name.endswith(_COUNTED_IN_ROWS) else "line"


def row_name(path: Path, line: int) -> str:
    """ "dump.jsonl, line 3"; "dump.parquet, row 3"."""
    return f"{path}, {counted_in(path)} {line}"
