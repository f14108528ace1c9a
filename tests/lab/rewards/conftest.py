import sys
from pathlib import Path

import pytest

from geoalign.answers.verified import VerifiedReward

# The helpers beside the tests are modules.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def reward():
    """Verified answers, by processes that start once; a limit that nothing reaches, on however busy a machine."""
    pytest.importorskip("math_verify")
    with VerifiedReward(timeout=60, workers=2) as verified:
        yield verified
