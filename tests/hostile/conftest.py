import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def heavy_imports() -> None:
    """Imports of the commands, done once and outside the time of any command."""
    names = ("train.rehearsal", "compare.compare", "evaluation.evaluate", "bench.bench", "audit.audit", "judge.judge")
    for command in names:
        importlib.import_module(f"geoalign.lab.{command}")
