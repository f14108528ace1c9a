"""Fixtures of the judge's tests; what they share stands in judge_server.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from judge_server import JudgeServer

from geoalign.lab.config.judge import JudgeConfig
from geoalign.lab.evaluation.responses import write_responses


@pytest.fixture
def server(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    running = JudgeServer()
    yield running
    running.close()


@pytest.fixture
def settings(server):
    """The server's settings, impatient enough for tests."""

    def make(**changes):
        quick = {"timeout": 5.0, "patience": 0.5, "concurrency": 4}
        return JudgeConfig(**{"base_url": server.url, "model": "test-judge", **quick, **changes})

    return make


@pytest.fixture
def saved(tmp_path):
    """Writes a response file of that name."""

    def save(name, rows):
        path = tmp_path / name
        write_responses(path, rows)
        return path

    return save
