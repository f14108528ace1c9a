import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def heavy_imports() -> None:
    """Imports of the commands, done once and outside the time of any command."""
    labs = ("train.dry_run", "compare.compare", "evaluate.evaluate", "judge.judge")
    for module in ("audit.pipeline", *(f"lab.{name}" for name in labs)):
        importlib.import_module(f"geoalign.{module}")
