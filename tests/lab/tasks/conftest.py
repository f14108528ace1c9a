import json

import pytest


@pytest.fixture
def write_jsonl(tmp_path):
    """Writes rows to a JSONL file of this name and returns its path as text."""

    def write(name, rows):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write
