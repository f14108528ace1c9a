"""What a hostile or broken server may send instead of an answer; each with what a client should make of it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat

from scripted_server import RESET, UNREAD, Step, http, paced

# What comes of it: the answer; a request that is sent again until patience ends, at once or by its time limit; a reply
# that is no answer; a refusal.
FINE, AGAIN, LATE, BROKEN, REFUSED = "fine", "again", "late", "broken", "refused"
Steps = Callable[[bytes], Iterable[Step]]  # made of the body that would be the right one

_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
_BLOCK = b" " * 65536


def bomb(layers: int = 1) -> bytes:
    """600 MB of spaces in about 0.6 MB; packed again, in less."""
    packer = zlib.compressobj(wbits=31)
    first, again = (packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    data = first + again * 599
    for _ in range(layers - 1):
        data = gzip.compress(data)
    return data


def _packed(encoding: str, body: bytes) -> list[Step]:
    return [http(body, "200 OK", f"Content-Encoding: {encoding}")]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _status(status: str, *headers: str) -> tuple[Steps, str]:
    code = int(status.split()[0])
    kind = AGAIN if code in (408, 409, 425, 429) or code >= 500 else REFUSED
    return lambda good: [http(b'{"detail": "no"}', status, *headers)], kind


REPLIES: dict[str, tuple[Steps, str]] = {
    # The connection.
    "closed at once": (lambda good: [UNREAD], AGAIN),
    "reset after the request": (lambda good: [RESET], AGAIN),
    "reset in the body": (lambda good: [http(good)[:-5], 0.05, RESET], AGAIN),
    "closed in the headers": (lambda good: [http(good)[:30]], AGAIN),
    "closed in the body": (lambda good: [http(good, length=10_000)], AGAIN),
    "silent": (lambda good: [5.0], LATE),
    "silent in the body": (lambda good: [http(good)[:-5], 5.0], LATE),
    "headers a byte at a time": (lambda good: chain([b"HTTP/1.1 200 OK\r\n"], paced(b"X: " + b"y" * 90, 0.05)), LATE),
    "body a byte at a time": (lambda good: chain([_ENDLESS], paced(b" " * 90, 0.05)), LATE),
    "one header without end": (lambda good: chain([b"HTTP/1.1 200 OK\r\nX: "], repeat(_BLOCK)), AGAIN),
    "continue without end": (
        lambda good: chain.from_iterable(repeat((b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), 400)),
        LATE,
    ),
    "no HTTP": (lambda good: [b"hello\r\n\r\n"], AGAIN),
    "a status that is text": (lambda good: [http(good, "abc OK")], AGAIN),
    # The body.
    "body without end": (lambda good: chain([_ENDLESS], repeat(_BLOCK)), BROKEN),
    "chunks without end": (lambda good: chain([_CHUNKED], repeat(_chunk(_BLOCK))), BROKEN),
    "chunks": (lambda good: [_CHUNKED, _chunk(good), b"0\r\n\r\n"], FINE),
    "a chunk cut off": (lambda good: [_CHUNKED, _chunk(good)[:-6]], AGAIN),
    "a chunk of 2^60 bytes": (lambda good: [_CHUNKED, b"1" + b"0" * 15 + b"\r\n" + good, 5.0], LATE),
    "a length of 10^18": (lambda good: [http(good, length=10**18), 5.0], LATE),
    "two lengths": (lambda good: [http(good, "200 OK", "Content-Length: 3")], AGAIN),
    "gzip": (lambda good: _packed("gzip", gzip.compress(good)), FINE),
    "a bomb": (lambda good: _packed("gzip", bomb()), BROKEN),
    "a bomb in a bomb": (lambda good: _packed("gzip, gzip", bomb(2)), BROKEN),
    "a bomb as an error": (lambda good: [http(bomb(), "404 Not Found", "Content-Encoding: gzip")], REFUSED),
    "gzip in 5000 layers": (lambda good: _packed(", ".join(["gzip"] * 5000), good), BROKEN),
    "gzip that is none": (lambda good: _packed("gzip", good), BROKEN),
    "a page": (lambda good: [http(b"<html>hello</html>", kind="text/html")], BROKEN),
    "nothing": (lambda good: [http(b"")], BROKEN),
    "JSON cut off": (lambda good: [http(good[:-1])], BROKEN),
    "JSON of the wrong kind": (lambda good: [http(b"[1, 2, 3]")], BROKEN),
    "escapes for the terminal": (lambda good: [http(b"\x1b[2J\x1b]0;x\x07\xe2\x80\xae")], BROKEN),
    "100,000 deep": (lambda good: [http(b"[" * 100_000)], BROKEN),
    "a million lists": (lambda good: [http(b"[" + b"[]," * 1_040_000 + b"[]]")], BROKEN),
    "5 MB of spaces": (lambda good: [http(b" " * 5_000_000 + good)], BROKEN),
    # The status.
    **{str(status): _status(f"{status} X") for status in (400, 401, 404, 422, 408, 429, 500, 503, 599)},
    **{f"{status} elsewhere": _status(f"{status} X", "Location: ELSEWHERE") for status in (301, 307)},
    "a redirect to a file": _status("302 X", "Location: file:///etc/passwd"),
    "a refusal without end": (
        lambda good: chain([b"HTTP/1.1 400 X\r\n\r\n"], repeat(b"\x1b[31m no" * 8192)),
        REFUSED,
    ),
    "a refusal with escapes": (lambda good: [http(b'{"detail": "\\u001b[2J\\u202e\\ud800"}', "422 X")], REFUSED),
    **{f"Retry-After: {asked}": _status("503 X", f"Retry-After: {asked}") for asked in ("31536000", "-5", "nan")},
}


def steps(name: str, good: bytes, elsewhere: str) -> Iterator[Step]:
    """The script of one case; redirects point to `elsewhere`."""
    for step in REPLIES[name][0](good):
        yield step.replace(b"ELSEWHERE", elsewhere.encode()) if isinstance(step, bytes) and len(step) < 2000 else step
