import sys
from pathlib import Path

import pytest

# The two-process tests start a script that builds the same tiny things: they stand in a module of their own.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _one_thread():
    """Single-threaded torch: the suite shares its cores, and sums come out in one order."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
