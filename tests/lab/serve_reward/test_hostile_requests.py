"""The reward server against clients that are slow, silent or hostile: others are answered all the same."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator

import httpx2
import pytest
from running_server import Lengths, Running

from geoalign.lab.serve_reward.connections import BoundedProtocol

PROMPT = [{"role": "user", "content": "how do i fix it?"}]
TOKEN = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
BODY = json.dumps({"prompts": [PROMPT], "responses": ["abc"]}).encode()
HEAD = b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
AUTHORISED = HEAD + b"Authorization: Bearer secret\r\n"
CHUNKED = AUTHORISED + b"Transfer-Encoding: chunked\r\n\r\n"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def post(body: bytes, *headers: bytes) -> bytes:
    return AUTHORISED + b"".join(one + b"\r\n" for one in headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def get(path: bytes, method: bytes = b"GET", *headers: bytes) -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\nHost: x\r\n" + b"".join(one + b"\r\n" for one in headers) + b"\r\n"


@contextlib.contextmanager
def sockets(server: Running, number: int, data: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as opened:
        found = []
        for _ in range(number):
            found.append(opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10)))
            with contextlib.suppress(OSError):
                found[-1].sendall(data)
        yield found


def served(server: Running) -> float:
    """Seconds that a valid request and /health take together, each by a new connection."""
    start = time.monotonic()
    assert httpx2.post(f"{server.url}/score", content=BODY, headers=TOKEN, timeout=5).json()["scores"] == [3.0]
    assert httpx2.get(f"{server.url}/health", timeout=5).status_code == 200
    return time.monotonic() - start


def received(one: socket.socket, seconds: float = 5.0, *, pause: float | None = None) -> bytes:
    """All that comes until the other side closes, or for so many seconds; or until a pause after the first of it."""
    data, end = b"", time.monotonic() + seconds
    with contextlib.suppress(ConnectionError, TimeoutError):
        while (left := end - time.monotonic()) > 0:
            one.settimeout(min(left, pause) if pause and data else left)
            part = one.recv(65536)
            if not part:
                break
            data += part
    return data


SILENT = {
    "nothing": b"",
    "half a head": HEAD,
    "half a head with the token": AUTHORISED,
    "a head without the token, and no body": HEAD + b"Content-Length: 1000\r\n\r\n",
    "a head with the token, and no body": AUTHORISED + b"Content-Length: 1000\r\n\r\n",
    "half a body": post(BODY)[:-10],
    "chunks that stop": CHUNKED + b"5\r\n12345\r\n",
    "an answered request": get(b"/health"),
    "a refused request": get(b"/score", b"POST"),
}


@pytest.mark.parametrize("name", SILENT)
def test_two_hundred_silent_connections_keep_nobody_out(name, serve):
    server = serve(Lengths(), token="secret")
    served(server)
    with sockets(server, 200, SILENT[name]):
        assert served(server) < 2
        assert len(server.server.server_state.connections) < 150


@pytest.mark.parametrize("name", ["nothing", "half a head", "half a body", "chunks that stop", "a refused request"])
def test_a_stage_that_takes_too_long_ends_the_connection(name, serve, monkeypatch):
    for stage in ("head_seconds", "body_seconds", "answered_seconds"):
        monkeypatch.setattr(BoundedProtocol, stage, 0.3)
    server = serve(Lengths(), token="secret")
    with sockets(server, 1, SILENT[name]) as [one]:
        start = time.monotonic()
        received(one, 8)
        assert time.monotonic() - start < 4
    served(server)


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"", b"X"),
        (AUTHORISED, b"X: y\r\n"),
        (AUTHORISED + b"Content-Length: 10000\r\n\r\n", b" "),
        (CHUNKED, b"1\r\n \r\n"),
        (HEAD + b"Content-Length: 10000\r\n\r\n", b" "),
        (get(b"/health"), b"X"),
    ],
)
def test_a_byte_now_and_then_extends_no_deadline(first, piece, serve, monkeypatch):
    for stage in ("head_seconds", "body_seconds", "answered_seconds"):
        monkeypatch.setattr(BoundedProtocol, stage, 0.5)
    server = serve(Lengths(), token="secret")
    with sockets(server, 1, first) as [one]:
        start = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - start < 6:
                one.sendall(piece)
                time.sleep(0.05)
        assert time.monotonic() - start < 4


def test_a_client_that_never_reads_is_let_go(serve, monkeypatch):
    monkeypatch.setattr(BoundedProtocol, "reply_seconds", 0.3)
    monkeypatch.setattr(BoundedProtocol, "head_seconds", 1.0)
    server = serve(Lengths(), token="secret")
    many = get(b"/metrics", b"GET", b"Authorization: Bearer secret") * 100
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", server.port))
        one.settimeout(0.5)
        with contextlib.suppress(OSError):  # the server reads no more once its answers pile up
            for _ in range(100):
                one.sendall(many)
        end = time.monotonic() + 20
        while server.server.server_state.connections and time.monotonic() < end:
            time.sleep(0.05)
        assert not server.server.server_state.connections
    served(server)


def test_deadlines_leave_slow_work_and_patient_clients_alone(serve, monkeypatch):
    for stage in ("head_seconds", "body_seconds", "answered_seconds", "reply_seconds"):
        monkeypatch.setattr(BoundedProtocol, stage, 0.5)
    server = serve(Lengths(seconds=1.5), token="secret")
    with httpx2.Client(timeout=10) as client:
        for _ in range(2):
            assert client.post(f"{server.url}/score", content=BODY, headers=TOKEN).status_code == 200


def test_more_requests_than_may_wait_are_told_to_come_again(serve, monkeypatch):
    monkeypatch.setattr("geoalign.lab.serve_reward.app._MOST_IN_LINE", 2)
    server = serve(Lengths(seconds=0.5), token="secret")
    with sockets(server, 8, post(BODY, b"Connection: close")) as ones:
        time.sleep(0.2)
        start = time.monotonic()
        assert httpx2.get(f"{server.url}/health", timeout=5).status_code == 200
        assert time.monotonic() - start < 2
        replies = [received(one) for one in ones]
    refused = [reply for reply in replies if b" 503 " in reply.split(b"\r\n")[0]]
    assert len(refused) == 6
    assert all(b"retry-after: 1" in reply for reply in refused)
    assert sum(b" 200 " in reply.split(b"\r\n")[0] for reply in replies) == 8 - len(refused)


# What is sent, and the statuses that may come back; 0: the connection is closed without an answer.
REQUESTS: dict[str, tuple[bytes, set[int]]] = {
    "no HTTP": (b"hello\r\n\r\n", {400}),
    "zeros": (b"\x00" * 1000, {400}),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100, {400}),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 401}),
    "HTTP/0.9": (b"GET /health\r\n\r\n", {400}),
    "HTTP/9.9": (b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", {400, 200}),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", {400}),
    "two hosts": (get(b"/health", b"GET", b"Host: y"), {400}),
    "a host that is no address": (b"GET /health HTTP/1.1\r\nHost: [\r\n\r\n", {200, 400}),
    "scores for a host that is no address": (post(BODY).replace(b"Host: x", b"Host: ["), {200, 400}),
    # A head that comes in few pieces may be read before it is seen to be longer than the 16 KiB that uvicorn waits for.
    "a long path": (get(b"/" + b"a" * 100_000), {400, 401}),
    "a path of escapes": (get(b"/%1b%5b2J%0d%0aX:%20y"), {401}),
    "a path that climbs": (get(b"/../../etc/passwd"), {401}),
    "raw escapes in the path": (get(b"/\x1b[2J"), {400}),
    "escapes in a header": (get(b"/health", b"GET", b"X: \x1b[2J"), {200, 400}),
    "a header of no UTF-8": (get(b"/health", b"GET", b"X: \xff\xfe"), {200}),
    "a header without a name": (get(b"/health", b"GET", b": y"), {400}),
    "a folded header": (get(b"/health", b"GET", b"X: y\r\n z"), {200, 400}),
    "a long header": (get(b"/health", b"GET", b"X: " + b"y" * 100_000), {200, 400}),
    "many headers": (get(b"/health", b"GET", *([b"X: y"] * 20_000)), {200, 400}),
    "an upgrade": (get(b"/health", b"GET", b"Connection: upgrade", b"Upgrade: websocket"), {200, 400}),
    "a wrong method": (get(b"/score"), {401}),
    "a wrong method with the token": (get(b"/score", b"GET", b"Authorization: Bearer secret"), {405}),
    "a method that is none": (get(b"/health", b"BREW"), {405}),
    "TRACE": (get(b"/health", b"TRACE"), {405}),
    "CONNECT": (get(b"example.org:443", b"CONNECT"), {400, 401, 404}),
    "a wrong token of no ASCII": (get(b"/metrics", b"GET", b"Authorization: Bearer \xff"), {401}),
    "no body": (post(b""), {422}),
    "a length below zero": (AUTHORISED + b"Content-Length: -1\r\n\r\n", {400}),
    "a length that is text": (AUTHORISED + b"Content-Length: many\r\n\r\n", {400}),
    "two lengths": (AUTHORISED + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456", {400}),
    "length and chunks": (AUTHORISED + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400, 422}),
    "a length of 100 MB": (AUTHORISED + b"Content-Length: 100000000\r\n\r\n" + b" " * 1000, {413}),
    "100 MB": (post(b" " * 100_000_000), {413, 0}),
    "100 MB without the token": (HEAD + b"Content-Length: 100000000\r\n\r\n" + b" " * 100_000_000, {401, 413, 0}),
    "100 MB of chunks": (CHUNKED + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 1600, {413, 0}),
    "a chunk size that is text": (CHUNKED + b"size\r\n", {400, 0}),
    "a chunk size of 30 digits": (CHUNKED + b"f" * 30 + b"\r\n", {400, 0}),
    "a long chunk extension": (CHUNKED + b"1;" + b"x" * 100_000 + b"\r\n", {400, 0}),
    "a packed body": (post(BODY, b"Content-Encoding: gzip"), {200, 415, 422}),
    "bad JSON": (post(b"{"), {422}),
    "JSON cut off": (post(BODY[:-1]), {422}),
    "JSON twice": (post(BODY + BODY), {422}),
    "no UTF-8": (post(b"\xff\xfe\xfd"), {400, 422}),
    "deep lists": (post(b"[" * 90_000), {400, 422}),
    "deep objects": (post(b'{"a":' * 15_000), {400, 422}),
    "deep in a field": (post(b'{"prompts": ' + b"[" * 900 + b"]" * 900 + b', "responses": ["a"]}'), {422}),
    "NaN": (post(b'{"prompts": NaN, "responses": [1e999]}'), {422}),
    "a number of 5000 digits": (post(b'{"prompts": ' + b"1" * 5000 + b"}"), {400, 422}),
    "escapes in a key": (post(b'{"\\u001b[2J\\r\\n": 1}'), {422}),
    "a lone surrogate as a key": (post(b'{"\\ud800": 1}'), {422}),
    "two requests at once": (post(BODY) + get(b"/health"), {200}),
    "a request in the body": (post(BODY + get(b"/metrics")), {422}),
    "a thousand requests at once": (get(b"/health") * 1000, {200}),
}


def test_what_is_sent_is_answered_and_others_are_served(serve, monkeypatch, capfd):
    monkeypatch.setattr(BoundedProtocol, "body_seconds", 3.0)
    server = serve(Lengths(), token="secret")
    broken = {}
    for name, (data, statuses) in REQUESTS.items():
        with sockets(server, 1) as [one]:
            one.settimeout(5)
            with contextlib.suppress(OSError):
                for start in range(0, len(data), 2**16):
                    one.sendall(data[start : start + 2**16])
            reply = received(one, pause=0.1)
        status = int(reply.split()[1]) if reply else 0
        if status not in statuses or len(reply) > 500_000 or served(server) > 5:
            broken[name] = reply[:200]
    assert broken == {}
    printed = "".join(capfd.readouterr())
    assert "Traceback" not in printed
    assert not CONTROL.search(printed)
    assert "%1b" not in printed
