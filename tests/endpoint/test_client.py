"""The client against servers that send anything: each request ends in time, in an answer or a named error."""

import asyncio
import re
import time
from contextlib import aclosing
from typing import Any

import pytest
from harness import _peak
from hostile_replies import AGAIN, FINE, LATE, REFUSED, REPLIES, TEXT_REFUSED, TOO_LONG, steps
from scripted_server import http

from geoalign.endpoint.client import BadReplyError, Endpoint, RefusedTextError, UnreachableError, token_from
from geoalign.errors import ConfigError, ServiceError

GOOD = b'{"scores": [1.5, -2.0]}'
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
MEGABYTES = 100
ERRORS = {
    AGAIN: UnreachableError,
    LATE: UnreachableError,
    TOO_LONG: BadReplyError,
    TEXT_REFUSED: RefusedTextError,
    REFUSED: ServiceError,
}


def ask(url: str, *, timeout: float = 10.0, patience: float = 0.05, once: bool = False, token: str = "") -> Any:
    async def asked() -> Any:
        async with aclosing(Endpoint(url, token=token, timeout=timeout, patience=patience)) as endpoint:
            return await endpoint.ask("/score", {}, once=once)

    return asyncio.run(asked())


@pytest.mark.parametrize("name", REPLIES)
def test_every_reply(name, scripted, elsewhere):
    kind = REPLIES[name][1]
    scripted.script = lambda path: steps(name, GOOD, f"{elsewhere.url}/score")
    found, error = None, None
    before, start = _peak(reset=True), time.monotonic()
    try:
        # Enough for a busy machine, but where waiting is the point.
        found = ask(scripted.url, timeout=0.25 if kind == LATE else 10.0)
    except ServiceError as caught:
        error = caught
    assert time.monotonic() - start < 8
    assert _peak() - before < MEGABYTES
    assert elsewhere.requests == []
    if kind == FINE:
        assert found == GOOD.decode()
        return
    assert type(error) is ERRORS[kind]
    said = str(error)
    assert said.startswith(f"{scripted.url}/score: ")
    assert not CONTROL.search(said)
    assert len(said) < 1000


def test_a_server_that_is_overloaded_is_asked_again_when_it_says(scripted):
    replies = [http(b"", "429 X", "Retry-After: 1"), http(b"", "503 X"), http(GOOD)]
    scripted.script = lambda path: [replies[len(scripted.requests) - 1]]
    start = time.monotonic()
    assert ask(scripted.url, patience=20.0) == GOOD.decode()
    # As asked, then 1 s less at most a quarter.
    assert time.monotonic() - start > 1.7
    assert len(scripted.requests) == 3


def test_all_attempts_together_take_no_longer_than_patience(scripted):
    scripted.script = lambda path: [9.0]
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="no whole answer within"):
        ask(scripted.url, timeout=0.3, patience=1.5)
    assert time.monotonic() - start < 4
    asked = len(scripted.requests)
    assert asked > 1
    with pytest.raises(UnreachableError):
        ask(scripted.url, timeout=1.0, patience=60.0, once=True)
    assert len(scripted.requests) == asked + 1


def test_a_host_that_nobody_knows():
    with pytest.raises(UnreachableError, match=r"no\.such\.host\.invalid/score: Conn"):
        ask("http://no.such.host.invalid", timeout=2.0)


def test_a_proxy_is_not_asked_for_this_machine(scripted, elsewhere, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", elsewhere.url)
    monkeypatch.setenv("http_proxy", elsewhere.url)
    scripted.script = lambda path: [http(GOOD)]
    assert ask(scripted.url) == GOOD.decode()
    assert elsewhere.requests == []


def test_the_token_is_sent_and_cut_out_of_replies_and_errors(scripted):
    scripted.script = lambda path: [http(b"your key is sk-secret")]
    assert ask(scripted.url, token="sk-secret") == "your key is [API key]"
    scripted.script = lambda path: [http(b"sk-secret is wrong", "401 X")]
    with pytest.raises(ServiceError, match=r"HTTP 401: \[API key\] is wrong.*token_env"):
        ask(scripted.url, token="sk-secret")
    assert all(b"Bearer sk-secret" in head for head in scripted.heads)


def test_a_server_without_a_token_of_its_own_gets_none(scripted, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")
    scripted.script = lambda path: [http(GOOD)]
    ask(scripted.url)
    assert b"authorization" not in scripted.heads[0].lower()


def test_the_token_of_a_variable(monkeypatch):
    monkeypatch.setenv("TOKEN", " sk-1\n")
    assert token_from("TOKEN") == "sk-1"
    for value in ("", "sk-1\r\nX-Other: 2", "sk-é"):
        monkeypatch.setenv("TOKEN", value)
        with pytest.raises(ConfigError, match=r"^token_env: \$TOKEN holds no API key") as caught:
            token_from("TOKEN")
        assert "sk" not in str(caught.value)
