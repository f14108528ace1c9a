"""Servers that send what a test says; the helpers beside the tests are modules."""

import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import httpcore2
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "hostile"))

from scripted_server import ScriptedServer


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.close()


elsewhere = scripted  # a second one


@pytest.fixture(autouse=True)
def quick_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no key of the environment; and certificates, which no test here needs, are read only once."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(httpcore2, "default_ssl_context", _read_once)


_read_once = functools.cache(httpcore2.default_ssl_context)
