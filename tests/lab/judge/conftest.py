"""Fixtures of the judge's tests; what they share stands in judge_server.py."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from judge_server import JudgeServer

from geoalign.lab.config.judge import JudgeConfig
from geoalign.lab.evaluation.responses import SavedResponse, write_responses


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeServer]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    running = JudgeServer()
    yield running
    running.close()


@pytest.fixture
def settings(server: JudgeServer) -> Callable[..., JudgeConfig]:
    """The server's settings, impatient enough for tests."""

    def make(**changes: Any) -> JudgeConfig:
        quick = {"timeout": 5.0, "patience": 0.5, "concurrency": 4}
        return JudgeConfig(**{"base_url": server.url, "model": "test-judge", **quick, **changes})

    return make


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str, Sequence[SavedResponse]], Path]:
    """Writes a response file of that name."""

    def save(name: str, rows: Sequence[SavedResponse]) -> Path:
        path = tmp_path / name
        write_responses(path, rows)
        return path

    return save
