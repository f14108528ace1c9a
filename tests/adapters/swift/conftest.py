from __future__ import annotations

import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
INSTALLED = "swift" in packages_distributions()


@pytest.fixture(autouse=True)
def _ms_swift_as_it_was():
    """Undoes `install`: ms-swift's own trainers under their names."""
    if not INSTALLED:
        yield
        return
    from swift.trainers import TrainerFactory

    before = dict(TrainerFactory.TRAINER_MAPPING)
    yield
    TrainerFactory.TRAINER_MAPPING.update(before)
