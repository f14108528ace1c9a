"""Requests to one server in OpenAI's protocol, by the client of the `openai` package, which retries them."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from typing import TYPE_CHECKING, Any

from geoalign.errors import ConfigError, ServiceError
from geoalign.text import one_line

if TYPE_CHECKING:
    from openai import APIStatusError

# Proxies of the environment are not asked for these.
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
# Status codes that refuse this one text; any other refusal would hit every request.
_OF_THE_TEXT = (400, 413, 422, 451)
# The server is overloaded, or something between it and us failed; the same request may succeed later. So may 5xx.
_PASSING = (408, 409, 425, 429)
# Characters of what the server says that a message repeats.
_QUOTED = 500
_TOKEN = re.compile("[!-~]+")
# Shorter tokens are no secret (servers of one's own are given "EMPTY" or "1"), and may stand in any reply.
_SHORTEST_SECRET = 8


class UnreachableError(ServiceError):
    """The server gave no answer, or asked to come again later, until patience ended."""


class BadReplyError(ServiceError):
    """The reply to one request is not what was asked for; other requests may succeed."""


class RefusedTextError(BadReplyError):
    """The server refuses the text that it was sent, such as one that is too long; it may take others."""


class Endpoint:
    """A server that many tasks of one event loop may ask at once.

    Redirects are not followed, so that the API key goes nowhere else, and the key is cut out of every reply. A reply
    that is too long is not read to its end.

    Args:
        url: the address, up to where the paths of requests begin.
        token: the API key; "" sends none.
        timeout: seconds for one request.
        patience: seconds to retry a server that is down or overloaded. The first request has its `timeout` all the
            same.
        connections: the most requests at a time.
    """

    def __init__(self, url: str, *, token: str, timeout: float, patience: float, connections: int = 8) -> None:
        import httpx2
        from openai import AsyncOpenAI

        from geoalign.endpoint.bounded import BoundedClient

        self.url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._patience = patience
        self._client = AsyncOpenAI(
            api_key=token or "none",
            base_url=self.url,
            timeout=timeout,
            max_retries=_retries_within(patience),
            http_client=BoundedClient(
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=connections),
                trust_env=httpx2.URL(url).host not in _THIS_MACHINE,
            ),
        )

    async def ask(self, path: str, body: dict[str, Any] | None = None, *, once: bool = False) -> str:
        """The text of the server's reply to a POST of `body` as JSON, or to a GET where there is none.

        All attempts together take no longer than the longer of `timeout` and `patience`. With `once` there is a single
        attempt, of at most `timeout` seconds.

        Raises:
            UnreachableError: no attempt was answered.
            BadReplyError: the reply is too long.
            RefusedTextError: the server does not take `body`.
            ServiceError: it refuses every request, for instance for its token.
        """
        import httpx2
        import openai

        seconds = self._timeout if once else max(self._timeout, self._patience)
        options: Any = {"headers": {} if self._token else {"Authorization": openai.Omit()}}
        client = self._client.with_options(max_retries=0) if once else self._client
        address = f"{self.url}{path}"
        try:
            async with asyncio.timeout(seconds):
                if body is None:
                    response = await client.get(path, cast_to=httpx2.Response, options=options)
                else:
                    response = await client.post(path, cast_to=httpx2.Response, body=body, options=options)
        except (TimeoutError, openai.APITimeoutError) as error:
            raise UnreachableError(f"{address}: no whole answer within {seconds:.3g} s") from error
        except openai.APIConnectionError as error:
            raise UnreachableError(f"{address}: {self.quoted(repr(error.__cause__))}") from error
        except openai.APIStatusError as error:
            raise self._refusal(address, error) from error
        return self._without_token(response.text)

    def quoted(self, text: str) -> str:
        """The beginning of a foreign text on one printable line, without the token."""
        return one_line(self._without_token(text), _QUOTED)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.close()

    def _without_token(self, text: str) -> str:
        return text.replace(self._token, "[API key]") if len(self._token) >= _SHORTEST_SECRET else text

    def _refusal(self, address: str, error: APIStatusError) -> ServiceError:
        """The error for an answer whose status says that the request did not succeed."""
        status = error.status_code
        message = f"{address}: HTTP {status}: {self.quoted(error.response.text)}"
        if status in _PASSING or status >= 500:
            return UnreachableError(message)
        if status in _OF_THE_TEXT:
            return RefusedTextError(message)
        if status in (401, 403):
            message += ". Set `token_env` to the environment variable that has the right API key"
        return ServiceError(message)


def _retries_within(patience: float) -> int:
    """How many retries fit into so many seconds: the client pauses for 0.5, 1, 2, 4, and then always 8 seconds."""
    if patience < 7.5:
        return int(math.log2(2 * patience + 1))
    return 4 + int((patience - 7.5) / 8)


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError where it is none, or nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def token_from(variable: str) -> str:
    """The API key in the environment variable that `token_env` names; ConfigError, without the value, for none."""
    token = os.environ.get(variable, "").strip()
    if not _TOKEN.fullmatch(token):
        raise ConfigError(f"token_env: ${variable} holds no API key, which is printable ASCII without spaces")
    return token
