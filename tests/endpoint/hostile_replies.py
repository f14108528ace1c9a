"""What a hostile or broken server may send instead of an answer; each with what a client should make of it."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat

from scripted_server import RESET, UNREAD, Step, http, paced

# What comes of it: the answer; a request that is sent again until patience ends, at once or by its time limit; a reply
# that is not read to its end; a refusal of this text, or of every request.
FINE, AGAIN, LATE, TOO_LONG, TEXT_REFUSED, REFUSED = "fine", "again", "late", "too long", "text refused", "refused"
Steps = Callable[[bytes], Iterable[Step]]  # made of the body that would be the right one

_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
_BLOCK = b" " * 65536


def bomb() -> bytes:
    """600 MB of spaces in about 0.6 MB."""
    packer = zlib.compressobj(wbits=31)
    first, again = (packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * 599


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
    "closed in the body": (lambda good: [http(good, length=10_000)], AGAIN),
    "silent": (lambda good: [5.0], LATE),
    "headers a byte at a time": (lambda good: chain([b"HTTP/1.1 200 OK\r\n"], paced(b"X: " + b"y" * 90, 0.05)), LATE),
    "body a byte at a time": (lambda good: chain([_ENDLESS], paced(b" " * 90, 0.05)), LATE),
    # The body.
    "body without end": (lambda good: chain([_ENDLESS], repeat(_BLOCK)), TOO_LONG),
    "chunks": (lambda good: [_CHUNKED, _chunk(good), b"0\r\n\r\n"], FINE),
    "a chunk cut off": (lambda good: [_CHUNKED, _chunk(good)[:-6]], AGAIN),
    "gzip": (lambda good: _packed("gzip", gzip.compress(good)), FINE),
    "a bomb": (lambda good: _packed("gzip", bomb()), TOO_LONG),
    "a bomb as an error": (lambda good: [http(bomb(), "404 Not Found", "Content-Encoding: gzip")], TOO_LONG),
    # The status.
    **{str(status): _status(f"{status} X") for status in (401, 429)},
    "301 elsewhere": _status("301 X", "Location: ELSEWHERE"),
    "a refusal without end": (lambda good: chain([b"HTTP/1.1 403 X\r\n\r\n"], repeat(b"\x1b[31m no" * 8192)), TOO_LONG),
    "a refusal with escapes": (
        lambda good: [http(b'{"detail": "\\u001b[2J\\u202e\\ud800\x1b[2J"}', "422 X")],
        TEXT_REFUSED,
    ),
    "Retry-After: a year": _status("503 X", "Retry-After: 31536000"),
}


def steps(name: str, good: bytes, elsewhere: str) -> Iterator[Step]:
    """The script of one case; redirects point to `elsewhere`."""
    for step in REPLIES[name][0](good):
        yield step.replace(b"ELSEWHERE", elsewhere.encode()) if isinstance(step, bytes) and len(step) < 2000 else step
