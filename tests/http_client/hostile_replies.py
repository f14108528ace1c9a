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
_PASSING = [408, 409, 425, 429, 500, 501, 502, 503, 504, 507, 520, 599]
_DATES = ["Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"]
_ASKED = [str(365 * 86400), *_DATES, "-5", "0", "soon", "1e400", "nan", "", "9" * 5000, "\x9b2J"]


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


CONNECTIONS: dict[str, tuple[Steps, str]] = {
    "closed at once": (lambda good: [UNREAD], AGAIN),
    "reset at once": (lambda good: [UNREAD, RESET], AGAIN),
    "closed after the request": (lambda good: [], AGAIN),
    "reset after the request": (lambda good: [RESET], AGAIN),
    "reset in the status line": (lambda good: [b"HTTP/1.1 2", 0.05, RESET], AGAIN),
    "reset in the headers": (lambda good: [http(good)[:30], 0.05, RESET], AGAIN),
    "reset in the body": (lambda good: [http(good)[:-5], 0.05, RESET], AGAIN),
    "closed in the headers": (lambda good: [http(good)[:30]], AGAIN),
    "closed in the body": (lambda good: [http(good, length=10_000)], AGAIN),
    "silent": (lambda good: [5.0], LATE),
    "silent in the headers": (lambda good: [http(good)[:30], 5.0], LATE),
    "silent in the body": (lambda good: [http(good)[:-5], 5.0], LATE),
    "status line a byte at a time": (lambda good: paced(http(good), 0.1), LATE),
    "headers a byte at a time": (lambda good: chain([b"HTTP/1.1 200 OK\r\n"], paced(b"X: " + b"y" * 90, 0.05)), LATE),
    "body a byte at a time": (lambda good: chain([_ENDLESS], paced(b" " * 90, 0.05)), LATE),
    "headers without end, slowly": (
        lambda good: chain([b"HTTP/1.1 200 OK\r\n"], chain.from_iterable(repeat((b"X: y\r\n", 0.05), 90))),
        LATE,
    ),
    "headers without end": (
        lambda good: chain([b"HTTP/1.1 200 OK\r\n"], repeat(b"X: " + b"y" * 1000 + b"\r\n")),
        AGAIN,
    ),
    "one header without end": (lambda good: chain([b"HTTP/1.1 200 OK\r\nX: "], repeat(_BLOCK)), AGAIN),
    "a status line without end": (lambda good: chain([b"HTTP/1.1 200 "], repeat(b"O" * 65536)), AGAIN),
    "continue without end": (
        lambda good: chain.from_iterable(repeat((b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), 400)),
        LATE,
    ),
    "no HTTP": (lambda good: [b"hello\r\n\r\n"], AGAIN),
    "SSH": (lambda good: [b"SSH-2.0-OpenSSH_9.6\r\n"], AGAIN),
    "TLS": (lambda good: [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100], AGAIN),
    "HTTP/2": (lambda good: [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 50], AGAIN),
    "zeros": (lambda good: [b"\x00" * 200_000], AGAIN),
    "a status of two digits": (lambda good: [http(good, "20 OK")], AGAIN),
    "a status that is text": (lambda good: [http(good, "abc OK")], AGAIN),
    "a status of 999": (lambda good: [http(good, "999 x")], AGAIN),
}

BODIES: dict[str, tuple[Steps, str]] = {
    "body without end": (lambda good: chain([_ENDLESS], repeat(_BLOCK)), BROKEN),
    "chunks without end": (lambda good: chain([_CHUNKED], repeat(_chunk(_BLOCK))), BROKEN),
    "chunks": (lambda good: [_CHUNKED, _chunk(good), b"0\r\n\r\n"], FINE),
    "chunks of a byte, slowly": (
        lambda good: chain([_CHUNKED], chain.from_iterable(repeat((_chunk(b" "), 0.05), 90))),
        LATE,
    ),
    "chunks cut off": (lambda good: [_CHUNKED, _chunk(good)], AGAIN),
    "a chunk cut off": (lambda good: [_CHUNKED, _chunk(good)[:-6]], AGAIN),
    "a chunk size that is text": (lambda good: [_CHUNKED, b"size\r\n" + good], AGAIN),
    "a negative chunk size": (lambda good: [_CHUNKED, b"-5\r\n" + good], AGAIN),
    "a chunk size of 30 digits": (lambda good: [_CHUNKED, b"f" * 30 + b"\r\n" + good], AGAIN),
    "a chunk of 2^60 bytes": (lambda good: [_CHUNKED, b"1" + b"0" * 15 + b"\r\n" + good, 5.0], LATE),
    "trailers without end": (
        lambda good: chain([_CHUNKED, _chunk(good), b"0\r\n"], repeat(b"X: " + b"y" * 1000 + b"\r\n")),
        AGAIN,
    ),
    "a length below zero": (lambda good: [http(good, length=-1)], AGAIN),
    "a length of 10^18": (lambda good: [http(good, length=10**18), 5.0], LATE),
    "two lengths": (lambda good: [http(good, "200 OK", "Content-Length: 3")], AGAIN),
    "a length that is text": (lambda good: [http(good).replace(b"Content-Length: ", b"Content-Length: x")], AGAIN),
    "gzip": (lambda good: _packed("gzip", gzip.compress(good)), FINE),
    "deflate": (lambda good: _packed("deflate", zlib.compress(good)), FINE),
    "gzip in gzip": (lambda good: _packed("gzip, gzip", gzip.compress(gzip.compress(good))), FINE),
    "a bomb": (lambda good: _packed("gzip", bomb()), BROKEN),
    "a bomb in a bomb": (lambda good: _packed("gzip, gzip", bomb(2)), BROKEN),
    "a bomb in a bomb in a bomb": (lambda good: _packed("gzip, gzip, gzip", bomb(3)), BROKEN),
    "a bomb as an error": (
        lambda good: [http(bomb(), "404 Not Found", "Content-Encoding: gzip")],
        REFUSED,
    ),
    "gzip in six layers": (lambda good: _packed(", ".join(["gzip"] * 6), good), BROKEN),
    "gzip in 5000 layers": (lambda good: _packed(", ".join(["gzip"] * 5000), good), BROKEN),
    "gzip cut off": (lambda good: _packed("gzip", gzip.compress(good)[:15]), BROKEN),
    "gzip that is none": (lambda good: _packed("gzip", good), BROKEN),
    "deflate that is none": (lambda good: _packed("deflate", b"\xff" * 20), BROKEN),
    "brotli that is none": (lambda good: _packed("br", b"\xff" * 20), BROKEN),
    "zstd that is none": (lambda good: _packed("zstd", b"\xff" * 20), BROKEN),
    "an encoding that nobody knows": (lambda good: _packed("exi", b"\xff" * 20), BROKEN),
    "a page": (lambda good: [http(b"<html>hello</html>", kind="text/html")], BROKEN),
    "an answer called a picture": (lambda good: [http(good, kind="image/png")], FINE),
    "a character set that nobody knows": (lambda good: [http(good, kind="application/json; charset=klingon")], FINE),
    "nothing": (lambda good: [http(b"")], BROKEN),
    "204": (lambda good: [b"HTTP/1.1 204 No Content\r\n\r\n"], BROKEN),
    "no UTF-8": (lambda good: [http(b"\xff\xfe\xfd" * 10)], BROKEN),
    "a mark of UTF-8": (lambda good: [http(b"\xef\xbb\xbf" + good)], FINE),
    "JSON and more": (lambda good: [http(good + b"}")], BROKEN),
    "JSON twice": (lambda good: [http(good + good)], BROKEN),
    "JSON cut off": (lambda good: [http(good[:-1])], BROKEN),
    "JSON of the wrong kind": (lambda good: [http(b"[1, 2, 3]")], BROKEN),
    "an unescaped line end": (lambda good: [http(b'{"a": "b\nc"}')], BROKEN),
    "an integer of 5000 digits": (lambda good: [http(b"1" * 5000)], BROKEN),
    "escapes for the terminal": (lambda good: [http(b"\x1b[2J\x1b]0;x\x07\xe2\x80\xae")], BROKEN),
    **{f"{depth} deep": (lambda good, d=depth: [http(b"[" * d + b"]" * d)], BROKEN) for depth in (900, 990, 100_000)},
    **{
        f"{depth} objects deep": (lambda good, d=depth: [http(b'{"a":' * d + b"1" + b"}" * d)], BROKEN)
        for depth in (300, 900)
    },
    "a million lists": (lambda good: [http(b"[" + b"[]," * 1_040_000 + b"[]]")], BROKEN),
    "a million objects": (lambda good: [http(b"[" + b"{}," * 1_040_000 + b"{}]")], BROKEN),
    "5 MB of spaces": (lambda good: [http(b" " * 5_000_000 + good)], BROKEN),
    "a header of no UTF-8": (lambda good: [http(good, "200 OK", "X-Y: \xff\xfe")], FINE),
    "a hundred cookies": (
        lambda good: [http(good, "200 OK", *(f"Set-Cookie: a{i}={'b' * 500}" for i in range(100)))],
        FINE,
    ),
}

STATUSES: dict[str, tuple[Steps, str]] = {
    **{
        f"{status}": _status(f"{status} X")
        for status in [400, 401, 402, 403, 404, 405, 406, 410, 413, 415, 418, 422, 451, *_PASSING]
    },
    **{
        f"{status} elsewhere": _status(f"{status} X", "Location: ELSEWHERE")
        for status in (300, 301, 302, 303, 307, 308)
    },
    "304": (lambda good: [b"HTTP/1.1 304 Not Modified\r\n\r\n"], REFUSED),
    "a redirect to no address": (lambda good: [http(b"no", "302 X", "Location: http://[")], REFUSED),
    "a redirect to a file": _status("302 X", "Location: file:///etc/passwd"),
    "a redirect to itself": _status("302 X", "Location: /score"),
    "a refusal without end": (
        lambda good: chain([b"HTTP/1.1 400 X\r\n\r\n"], repeat(b"\x1b[31m no" * 8192)),
        REFUSED,
    ),
    "a refusal that is deep": (lambda good: [http(b"[" * 60_000, "400 X")], REFUSED),
    "a refusal with escapes": (lambda good: [http(b'{"detail": "\\u001b[2J\\u202e\\ud800"}', "422 X")], REFUSED),
    **{f"Retry-After: {asked}": _status("503 X", f"Retry-After: {asked}") for asked in _ASKED},
}

REPLIES = {**CONNECTIONS, **BODIES, **STATUSES}


def steps(name: str, good: bytes, elsewhere: str) -> Iterator[Step]:
    """The script of one case; redirects point to `elsewhere`."""
    for step in REPLIES[name][0](good):
        yield step.replace(b"ELSEWHERE", elsewhere.encode()) if isinstance(step, bytes) and len(step) < 2000 else step
