"""The client against servers that send anything: each request ends in time, in an answer or one of three errors."""

import asyncio
import re
import time
from typing import Any

import pytest
from harness import _peak
from hostile_replies import AGAIN, BROKEN, FINE, LATE, REFUSED, REPLIES, steps
from scripted_server import http

from geoalign.endpoint.http_client import (
    BadReplyError,
    HTTPClient,
    RefusedError,
    UnreachableError,
    read_json,
    token_from,
)
from geoalign.errors import ConfigError

GOOD = b'{"scores": [1.5, -2.0]}'
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
MEGABYTES = 100
ERRORS = {AGAIN: UnreachableError, LATE: UnreachableError, BROKEN: BadReplyError, REFUSED: RefusedError}


def limit(kind: str) -> float:
    """Seconds for one attempt: enough for a busy machine, but where waiting is the point."""
    return 0.25 if kind == LATE else 10.0


def scores(data: bytes) -> Any:
    try:
        value = read_json(data)
    except ValueError as error:
        raise BadReplyError("expected JSON") from error
    if not isinstance(value, dict) or "scores" not in value:
        raise BadReplyError("expected scores")
    return value["scores"]


def ask(url: str, *, timeout: float = 10.0, patience: float = 0.05, once: bool = False) -> Any:
    async def asked() -> Any:
        client = HTTPClient(url, key="url", timeout=timeout, patience=patience)
        try:
            return await client.ask("POST", "/score", scores, b"{}", once=once)
        finally:
            await client.aclose()

    return asyncio.run(asked())


@pytest.mark.parametrize("name", REPLIES)
def test_every_reply(name, scripted, elsewhere):
    kind = REPLIES[name][1]
    scripted.script = lambda path: steps(name, GOOD, f"{elsewhere.url}/score")
    found, error = None, None
    before, start = _peak(reset=True), time.monotonic()
    try:
        found = ask(scripted.url, timeout=limit(kind))
    except (UnreachableError, BadReplyError, RefusedError) as caught:
        error = caught
    assert time.monotonic() - start < 8
    assert _peak() - before < MEGABYTES
    assert elsewhere.requests == []
    if kind == FINE:
        assert found == [1.5, -2.0]
        return
    assert isinstance(error, ERRORS[kind])
    said = str(error)
    assert not CONTROL.search(said)
    assert len(said) < 1000
    assert not said.endswith(":")


def test_pauses_double_and_heed_what_the_server_asks_for(scripted, monkeypatch):
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    headers = ["", "", "Retry-After: 7", "Retry-After: 9999", "Retry-After: soon", "", "", "", "Retry-After: nan"]
    scripted.script = lambda path: (
        [http(b"", "429 X", headers[len(scripted.requests) - 1])] if len(scripted.requests) < 10 else [http(GOOD)]
    )
    monkeypatch.setattr("geoalign.endpoint.http_client.asyncio.sleep", sleep)
    monkeypatch.setattr("random.Random.uniform", lambda self, low, high: low)
    assert ask(scripted.url, patience=600.0) == [1.5, -2.0]
    # 0.25 s doubled up to 15 s, less a half; as asked, but no more than two minutes.
    assert waited == [0.125, 0.25, 7.0, 120.0, 2.0, 4.0, 7.5, 7.5, 7.5]


def test_patience_ends_the_attempts(scripted):
    scripted.script = lambda path: [9.0]
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="no answer within"):
        ask(scripted.url, timeout=0.3, patience=1.5)
    assert time.monotonic() - start < 4
    asked = len(scripted.requests)
    assert asked > 1
    with pytest.raises(UnreachableError):
        ask(scripted.url, timeout=1.0, patience=60.0, once=True)
    assert len(scripted.requests) == asked + 1


def test_the_server_is_not_blamed_for_a_time_cut_short(scripted):
    scripted.script = lambda path: [http(b"down", status="503 Busy")] if len(scripted.requests) == 1 else [9.0]
    with pytest.raises(UnreachableError, match="HTTP 503: down"):
        ask(scripted.url, patience=1.0)
    assert len(scripted.requests) == 2


def test_an_address_that_cannot_be_asked_and_a_host_that_nobody_knows():
    with pytest.raises(ConfigError, match="url: expected an address"):
        ask("http://[::1")
    with pytest.raises(UnreachableError):
        ask("http://no.such.host.invalid", timeout=2.0)


def test_a_proxy_is_not_asked_for_this_machine(scripted, elsewhere, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", elsewhere.url)
    monkeypatch.setenv("http_proxy", elsewhere.url)
    scripted.script = lambda path: [http(GOOD)]
    assert ask(scripted.url) == [1.5, -2.0]
    assert elsewhere.requests == []


def test_the_token_of_a_variable():
    assert token_from("TOKEN", key="token_env", environment={"TOKEN": " sk-1\n", "OTHER": "sk-2"}) == "sk-1"
    with pytest.raises(ConfigError, match=r"^a\.token_env: expected a token .* in \$TOKEN, got none"):
        token_from("TOKEN", key="a.token_env", environment={"OTHER": "sk-1"})
    for value in ("sk-1\r\nX-Other: 2", "sk-é"):
        with pytest.raises(ConfigError, match="got something else") as caught:
            token_from("TOKEN", key="token_env", environment={"TOKEN": value})
        assert "sk" not in str(caught.value)
