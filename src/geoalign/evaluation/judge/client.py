"""A judge behind an OpenAI-compatible endpoint: one request, its time limit, its retries."""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import json
import math
import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from geoalign.config.judge import JudgeConfig
from geoalign.errors import ConfigError, MissingExtraError
from geoalign.evaluation.judge.asking import Judge, RequestFailedError
from geoalign.evaluation.judge.prompt import Comparison, judge_messages

try:
    import httpx2
except ImportError as _error:
    raise MissingExtraError(
        "geoalign judge: asking an endpoint needs httpx2: pip install 'geoalign[judge]'"
    ) from _error

DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"
# No chat completion of a few hundred tokens is nearly as long; the rest of a longer body is not read.
MAX_BODY_BYTES = 4 * 2**20
LONGEST_WAIT = 120.0

# Shorter keys are no secret (servers of one's own are given "EMPTY" or "1"), and may stand in any answer.
_SHORTEST_SECRET = 8

_AGAIN = frozenset({408, 409, 425, 429})
_QUOTED = 200


@dataclass(frozen=True)
class _Trouble:
    what: str
    again: bool
    wait: float | None = None


class EndpointJudge(Judge):
    """Asks `base_url`/chat/completions; to be used as an asynchronous context manager, by many tasks at once.

    The API key is read from the environment, sent in the Authorization header and nowhere else: one of 8 characters or
    more is taken out of whatever the endpoint answers. Redirects are not followed.

    Raises:
        ConfigError: the address cannot be asked; or the named environment variable is not set, or holds what cannot be
            a key.
    """

    def __init__(self, config: JudgeConfig) -> None:
        self.name = config.model
        self._config = config
        self._url = f"{config.base_url}/chat/completions"
        try:
            httpx2.URL(self._url)
        except httpx2.InvalidURL as error:
            raise ConfigError(
                f"base_url: expected an address such as https://host/v1, got {config.base_url!r}: {error}"
            ) from error
        self._secret = api_key(config.api_key_variable)
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> EndpointJudge:
        """Opens the connections."""
        # `_try` sets one limit for all of a request: httpx2's own ones start anew with every byte that trickles in.
        limits = httpx2.Limits(max_connections=self._config.concurrency)
        self._client = httpx2.AsyncClient(timeout=None, limits=limits, follow_redirects=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Closes them."""
        if self._client is not None:
            await self._client.aclose()

    def key(self, comparison: Comparison) -> str:
        """A hash of all that the answer depends on: address and request."""
        return hashlib.sha256(self._url.encode() + b"\0" + self._body(comparison)).hexdigest()

    async def ask(self, comparison: Comparison) -> str:
        """The text that the judge answers; tries again, with back-off, what may go better later.

        Waits as long as the endpoint asks (Retry-After), otherwise `backoff` x 2^tries less up to a half at random; at
        most 120 s.

        Raises:
            RequestFailedError: no usable answer in `retries` + 1 tries, or one that no other try would change.
        """
        body = self._body(comparison)
        tries = 0
        while True:
            found = await self._try(body)
            if isinstance(found, str):
                return found
            tries += 1
            if not found.again or tries > self._config.retries:
                raise RequestFailedError(found.what)
            await asyncio.sleep(_wait(found.wait, self._config.backoff, tries))

    def _body(self, comparison: Comparison) -> bytes:
        body = {
            "model": self._config.model,
            "messages": judge_messages(comparison),
            "temperature": self._config.temperature,
            "max_tokens": self._config.max_tokens,
            **self._config.request,
        }
        sent = {name: value for name, value in body.items() if value is not None}
        # Only surrogates fail to encode (in names from the command line); Python's backslash form is their JSON escape.
        return json.dumps(sent, ensure_ascii=False, sort_keys=True).encode("utf-8", errors="backslashreplace")

    async def _try(self, body: bytes) -> str | _Trouble:
        assert self._client is not None, "used as an asynchronous context manager"
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        try:
            async with (
                asyncio.timeout(self._config.timeout),
                self._client.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                data = await _read(response)
        except TimeoutError:
            return _Trouble(f"no answer within {self._config.timeout:g} s", again=True)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            return _Trouble(self._quoted(f"{type(error).__name__}: {error}"), again=True)
        if data is None:
            return _Trouble(f"an answer of more than {MAX_BODY_BYTES} bytes", again=True)
        if not response.is_success:
            status = response.status_code
            wait = retry_after(response.headers.get("Retry-After"), now=time.time())
            what = f"HTTP {status}: {self._quoted(data.decode('utf-8', errors='replace'))}"
            return _Trouble(what, again=status in _AGAIN or status >= 500, wait=wait)
        text = _text(data)
        if text is None:
            got = self._quoted(data.decode("utf-8", errors="replace"))
            return _Trouble(f"expected a chat completion in JSON, got {got}", again=True)
        return self._hidden(text)

    def _hidden(self, text: str) -> str:
        return text.replace(self._secret, "[API key]") if len(self._secret) >= _SHORTEST_SECRET else text

    def _quoted(self, text: str) -> str:
        """The beginning of a foreign text on one line, without the key and without what a terminal would act on."""
        line = "".join(letter if letter.isprintable() else " " for letter in self._hidden(text)[: 4 * _QUOTED])
        line = " ".join(line.split())
        return line[:_QUOTED] + ("..." if len(line) > _QUOTED else "")


def api_key(variable: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The API key from the environment; "" where no variable was named and OPENAI_API_KEY is not set.

    Raises:
        ConfigError: the named variable is not set, or what it holds cannot stand in a header. Never shows the value.
    """
    value = environment.get(variable or DEFAULT_KEY_VARIABLE, "").strip()
    if variable and not value:
        raise ConfigError(f"api_key_variable: expected the environment variable {variable} to hold a key, got nothing")
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise ConfigError(
            f"api_key_variable: expected {variable or DEFAULT_KEY_VARIABLE} to hold printable ASCII without spaces, "
            "got something else"
        )
    return value


def retry_after(header: str | None, *, now: float) -> float | None:
    """Seconds that a Retry-After header asks for (a number or a date), at least 0; None where it says nothing."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _wait(asked: float | None, backoff: float, tries: int) -> float:
    if asked is not None:
        return min(asked, LONGEST_WAIT)
    return min(backoff * 2.0 ** min(tries - 1, 30), LONGEST_WAIT) * random.uniform(0.5, 1.0)


async def _read(response: httpx2.Response) -> bytes | None:
    """The body as it came, never unpacked (none was asked to be packed); None where it is too long."""
    data = bytearray()
    async for part in response.aiter_raw():
        data += part
        if len(data) > MAX_BODY_BYTES:
            return None
    return bytes(data)


def _text(data: bytes) -> str | None:
    """`choices[0].message.content` of a chat completion, "" where it is null; None where the body is no completion."""
    try:
        value: Any = json.loads(data)
        message = value["choices"][0]["message"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    content = message.get("content") if isinstance(message, dict) else 0
    return "" if content is None else content if isinstance(content, str) else None
