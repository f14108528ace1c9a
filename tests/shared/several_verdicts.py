"""Dumps with the verdicts of several verifiers, and what a summary has of one of them."""

from dumps import verdicts, write_lines


def entry_of(summary, name):
    return next(entry for entry in summary["table"] if entry["name"] == name)


def dump(tmp_path, **columns):
    """The rows of `verdicts` with further columns of marks."""
    rows = verdicts()
    for name, text in columns.items():
        for row, mark in zip(rows, text * 8, strict=True):
            row[name] = None if mark == "-" else mark == "1"
    return write_lines(tmp_path / "d.jsonl", rows)
