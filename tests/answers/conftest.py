import pytest
from judge_server import JudgeServer

from geoalign.answers.verified import VerifiedReward


@pytest.fixture(scope="session")
def reward():
    """Verified answers, by processes that start once; a limit that nothing reaches, on however busy a machine."""
    pytest.importorskip("math_verify")
    with VerifiedReward(timeout=60, workers=2) as verified:
        yield verified


@pytest.fixture
def server(monkeypatch):
    """A judge's endpoint, without the proxies and the key of the environment."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    running = JudgeServer()
    yield running
    running.close()
