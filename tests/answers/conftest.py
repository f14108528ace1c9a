import pytest
from judge_server import judge_on_loopback

from geoalign.answers.verified import VerifiedReward


@pytest.fixture(scope="session")
def reward():
    """Verified answers, by processes that start once; a limit that nothing reaches, on however busy a machine."""
    pytest.importorskip("math_verify")
    with VerifiedReward(timeout=60, workers=2) as verified:
        yield verified


@pytest.fixture
def server(monkeypatch):
    yield from judge_on_loopback(monkeypatch)
