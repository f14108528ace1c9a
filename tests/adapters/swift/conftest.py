from __future__ import annotations

import os
import socket
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# ms-swift's usual port may be another engine's, where engines are tested side by side.
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.setdefault("MASTER_PORT", str(free.getsockname()[1]))
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
