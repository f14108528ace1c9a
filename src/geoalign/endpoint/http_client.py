"""Requests to servers that may be slow, overloaded or hostile: a deadline for all of each, a limit on what is read, and
retries until patience ends; needs httpx2."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from geoalign.errors import ConfigError, ServiceError
from geoalign.text import one_line

if TYPE_CHECKING:
    import httpx2

# Unpacked. Scores and completions are nearly all far below 1 MiB; parsed, hostile JSON takes 25 times its length.
MAX_REPLY_BYTES = 3 * 2**20
_MAX_ERROR_BYTES = 64 * 2**10
# Characters of what the server says that a message repeats.
_QUOTED = 500

# The server is overloaded, or something between it and us failed; the same request may succeed later. So may 5xx.
_PASSING = frozenset({408, 409, 425, 429})
# What a provider answers to one text that it does not take; any other refusal would meet every request.
_OF_THE_TEXT = frozenset({400, 413, 422, 451})
# Seconds: pauses double from the first to the longest; a server may ask for more, but years of it are no answer.
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_ASKED = 0.25, 15.0, 120.0

# Shorter tokens are no secret (servers of one's own are given "EMPTY" or "1"), and may stand in any reply.
_SHORTEST_SECRET = 8

T = TypeVar("T")


class UnreachableError(ServiceError):
    """No answer, or one that says to come again, after `wait` seconds."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class BadReplyError(ServiceError):
    """A reply that is too long, cannot be unpacked, is not what was asked for, or refuses this text alone."""


class RefusedTextError(BadReplyError):
    """An answer that refuses what was sent, such as a text that is too long; other texts may pass."""


class RefusedError(ServiceError):
    """An answer that no other attempt would change, such as a refused token or a redirect."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"HTTP {status}: {said}")
        self.status, self.said = status, said


class HTTPClient:
    """Talks to one server, in one event loop, for many tasks at once; ConfigError where `url` cannot be asked.

    Redirects are not followed, so that the token goes nowhere else, and it is cut out of what the server says. Proxies
    of the environment are used, but not for this machine. Replies are unpacked only as far as `MAX_REPLY_BYTES`.

    Args:
        timeout: seconds for one attempt, from connecting to the last byte of the reply.
        patience: seconds over all attempts and pauses; the first attempt has its full time limit all the same.
    """

    def __init__(
        self, url: str, *, key: str, timeout: float, patience: float, token: str = "", connections: int = 8
    ) -> None:
        import httpx2

        self.url = url.rstrip("/")
        self._timeout, self._patience, self._token = timeout, patience, token
        self._draw = random.Random()  # of its own: a pause must not move the draws of a training
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            host = httpx2.URL(url).host
        except (httpx2.InvalidURL, ValueError) as error:
            raise ConfigError(f"{key}: expected an address such as https://host/v1, got {url!r}: {error}") from error
        self._client = httpx2.AsyncClient(
            headers=headers | ({"Authorization": f"Bearer {token}"} if token else {}),
            # `_attempt` sets one limit for all of a request: httpx2's own ones start anew with every byte.
            timeout=None,
            limits=httpx2.Limits(max_connections=connections),
            follow_redirects=False,
            trust_env=host not in ("localhost", "127.0.0.1", "::1"),
        )

    async def ask(
        self, method: str, path: str, read: Callable[[bytes], T], body: bytes | None = None, *, once: bool = False
    ) -> T:
        """What `read`, which may raise BadReplyError, makes of the reply; within the longer of timeout and patience."""
        end = time.monotonic() + self._patience
        timeout, longest, last = self._timeout, _FIRST_PAUSE, None
        while True:
            try:
                return read(await self._attempt(method, path, body, timeout))
            except UnreachableError as failure:
                # Jitter: many waiting clients should not come back all at once.
                pause = max(longest * self._draw.uniform(0.5, 1.0), failure.wait)
                if once or pause >= end - time.monotonic():
                    raise (last if last and timeout < self._timeout else failure) from None  # `last` had all its time
                last = failure
            await asyncio.sleep(pause)
            longest = min(2 * longest, _LONGEST_PAUSE)
            timeout = min(self._timeout, end - time.monotonic())
            # A sleep may take longer than it was asked to.
            if timeout <= 0:
                raise last

    def hidden(self, text: str) -> str:
        """A text without the token in it."""
        return text.replace(self._token, "[API key]") if len(self._token) >= _SHORTEST_SECRET else text

    def quoted(self, text: str) -> str:
        """The beginning of a foreign text on one printable line, without the token."""
        return one_line(self.hidden(text), _QUOTED)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _attempt(self, method: str, path: str, body: bytes | None, timeout: float) -> bytes:
        import httpx2

        try:
            async with (
                asyncio.timeout(timeout),
                self._client.stream(method, f"{self.url}{path}", content=body) as response,
            ):
                data = await _read(response, MAX_REPLY_BYTES if response.is_success else _MAX_ERROR_BYTES)
        except TimeoutError:
            raise UnreachableError(f"no answer within {timeout:.3g} s") from None
        except httpx2.DecodingError as error:
            raise BadReplyError(f"an answer that cannot be unpacked: {self.quoted(str(error))}") from error
        # Names of hosts that cannot be looked up are UnicodeError.
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            raise UnreachableError(self.quoted(f"{type(error).__name__}: {error}".removesuffix(": "))) from error
        if response.is_success:
            if len(data) > MAX_REPLY_BYTES:
                raise BadReplyError(f"an answer of more than {MAX_REPLY_BYTES} bytes")
            return data
        status, said = response.status_code, self.quoted(data[:_MAX_ERROR_BYTES].decode("utf-8", errors="replace"))
        if status in _PASSING or status >= 500:
            raise UnreachableError(f"HTTP {status}: {said}", _asked_pause(response.headers.get("Retry-After", "")))
        if status in _OF_THE_TEXT:
            raise RefusedTextError(f"HTTP {status}: {said}")
        raise RefusedError(status, said)


async def _read(response: httpx2.Response, limit: int) -> bytes:
    """The unpacked body; of a longer one no more than shows that it is longer."""
    data = bytearray()
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            data += part
            if len(data) > limit:
                break
    return bytes(data)


def _asked_pause(header: str) -> float:
    """The seconds that a Retry-After header asks for, at most `_LONGEST_ASKED`; 0 where it holds no whole number."""
    return min(float(header), _LONGEST_ASKED) if header.isascii() and header.isdigit() else 0.0


def read_json(data: str | bytes) -> Any:
    """The value of a JSON text; ValueError where it is none, or nested too deeply to be read."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def token_from(variable: str, *, key: str, environment: Mapping[str, str] = os.environ) -> str:
    """The bearer token in an environment variable, which the setting `key` names; ConfigError, without the value, where
    it is unset, empty, or cannot stand in a header."""
    token = environment.get(variable, "").strip()
    problem = "something else" if token else "none"
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{key}: expected a token of printable ASCII without spaces in ${variable}, got {problem}")
    return token
