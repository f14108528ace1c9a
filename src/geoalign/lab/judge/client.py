"""A judge behind an OpenAI-compatible endpoint: what is asked, and the text of its answer."""

from __future__ import annotations

import hashlib
import json
import os
from types import TracebackType

from geoalign.errors import MissingExtraError
from geoalign.lab.config.judge import JudgeConfig
from geoalign.lab.http_client.retries import Retries
from geoalign.lab.http_client.token import token_from
from geoalign.lab.judge.asking import Judge, RequestFailedError
from geoalign.lab.judge.prompt import Comparison, judge_messages

try:
    from geoalign.lab.http_client.client import BadReplyError, HTTPClient, RefusedError, UnreachableError, read_json
except ImportError as _error:
    raise MissingExtraError(
        "geoalign judge: asking an endpoint needs httpx2: pip install 'geoalign[judge]'"
    ) from _error

DEFAULT_TOKEN_VARIABLE = "OPENAI_API_KEY"
_LONGEST_PAUSE = 120.0


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
        self._client = HTTPClient(
            config.base_url,
            key="base_url",
            timeout=config.timeout,
            retries=Retries(config.patience, config.retries, config.backoff, _LONGEST_PAUSE),
            # A model behind the endpoint may do better the next time.
            again=(UnreachableError, BadReplyError),
            token=_token(config.token_env),
            connections=config.concurrency,
        )

    async def __aenter__(self) -> EndpointJudge:
        """Connections open as they are needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Closes them."""
        await self._client.aclose()

    def key(self, comparison: Comparison) -> str:
        """A hash of all that the answer depends on: address and request."""
        address = f"{self._config.base_url}/chat/completions"
        return hashlib.sha256(address.encode() + b"\0" + self._body(comparison)).hexdigest()

    async def ask(self, comparison: Comparison) -> str:
        """The text that the judge answers; tries again, with back-off, what may go better later.

        Raises:
            RequestFailedError: no usable answer in `retries` + 1 tries or within `patience`, or one that no other try
                would change.
        """
        try:
            text = await self._client.ask("POST", "/chat/completions", self._text, self._body(comparison))
        except (UnreachableError, BadReplyError, RefusedError) as error:
            raise RequestFailedError(str(error)) from error
        return self._client.hidden(text)

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

    def _text(self, data: bytes) -> str:
        """`choices[0].message.content` of a chat completion, "" where it is null."""
        try:
            message = read_json(data)["choices"][0]["message"]
            content = message.get("content") if isinstance(message, dict) else 0
        except (ValueError, LookupError, TypeError):
            content = 0
        if content is not None and not isinstance(content, str):
            got = self._client.quoted(data[:4096].decode("utf-8", errors="replace"))
            raise BadReplyError(f"expected a chat completion in JSON, got {got}")
        return content or ""


def _token(variable: str | None) -> str:
    """The API key; "" where no variable was named and OPENAI_API_KEY is not set."""
    if variable is None and not os.environ.get(DEFAULT_TOKEN_VARIABLE, "").strip():
        return ""
    return token_from(variable or DEFAULT_TOKEN_VARIABLE, key="token_env")
