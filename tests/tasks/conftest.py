import json
import os
from pathlib import Path

import pytest


@pytest.fixture
def write_jsonl(tmp_path):
    """Writes rows to a JSONL file of this name and returns its path as text."""

    def write(name, rows):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def shared_data():
    """The folder of real data sets; the test is skipped where it is absent."""
    given = os.environ.get("GEOALIGN_SHARED_DATA")
    folder = Path(given) if given else Path(__file__).parents[2].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data sets at {folder}; GEOALIGN_SHARED_DATA names the folder that holds them")
    return folder
