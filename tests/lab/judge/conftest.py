import pytest
from judge_server import judge_on_loopback

from geoalign.dumps.response_files import write_responses
from geoalign.endpoint.settings import JudgeConfig


@pytest.fixture
def server(monkeypatch):
    yield from judge_on_loopback(monkeypatch)


@pytest.fixture
def settings(server):
    def make(**changes):
        quick = {"timeout": 5.0, "patience": 0.5, "concurrency": 4}
        return JudgeConfig(**{"base_url": server.url, "model": "test-judge", **quick, **changes})

    return make


@pytest.fixture
def saved(tmp_path):
    def save(name, rows):
        path = tmp_path / name
        write_responses(path, rows)
        return path

    return save
