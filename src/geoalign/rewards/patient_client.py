"""HTTP requests that outlast a server's bad moments: repeated with growing pauses until patience ends."""

from __future__ import annotations

import os
import random
import time
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from geoalign.config.reward_model import RewardModelConfig
from geoalign.errors import ConfigError, MissingExtraError, ServiceError

try:
    import httpx2
except ImportError as _absent:
    raise MissingExtraError("a reward model behind a URL needs httpx2: pip install 'geoalign[trl]'") from _absent

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 15.0
# The server is overloaded, or something between it and us failed; the same request may succeed later.
_PASSING = {408, 425, 429}
_SHOWN = 500


class UnreachableError(Exception):
    """The server gave no answer within the patience; never leaves this package's client."""


class PatientClient:
    """Talks JSON to one server.

    Repeated are requests that were not answered (refused, reset, late) or answered 408, 425, 429 or 5xx. Anything else
    but success is an error at once: redirects are not followed, so that a token goes nowhere else.

    Args:
        config: `url`, `token_env`, `timeout` of one request, `patience` with one request over all its attempts.

    Raises:
        ConfigError: the variable that `token_env` names is unset or empty.
    """

    def __init__(self, config: RewardModelConfig) -> None:
        assert config.url is not None
        self.url = config.url
        self._patience = config.patience
        self._draw = random.Random()  # of its own: a pause must not move the draws of a training
        headers = {}
        if config.token_env is not None:
            token = os.environ.get(config.token_env, "").strip()
            if not token or not token.isascii() or not token.isprintable():
                raise ConfigError(
                    f"reward.model.token_env: expected a token of printable ASCII in ${config.token_env}, got none"
                )
            headers["Authorization"] = f"Bearer {token}"
        # A proxy of the environment cannot reach this machine's own addresses.
        self._client = httpx2.Client(
            headers=headers, timeout=config.timeout, follow_redirects=False, trust_env=not _on_this_machine(self.url)
        )

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, *, patiently: bool = True) -> Any:
        """The JSON of the answer; None where it has no body.

        Args:
            patiently: False: one attempt only.

        Raises:
            UnreachableError: no answer, or one that says to come again, until patience ended.
            ServiceError: any other answer but success, or no JSON.
        """
        start, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            try:
                return _content(self._attempt(method, path, body), f"{self.url}{path}")
            except UnreachableError as failure:
                left = self._patience - (time.monotonic() - start)
                if left <= 0 or not patiently:
                    raise
                # Jitter: many waiting clients should not come back all at once.
                time.sleep(min(left, max(pause * self._draw.uniform(0.5, 1.0), _asked_pause(failure))))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _attempt(self, method: str, path: str, body: dict[str, Any] | None) -> httpx2.Response:
        try:
            response = self._client.request(method, f"{self.url}{path}", json=body)
        except httpx2.TransportError as error:
            raise UnreachableError(f"{type(error).__name__}: {error}") from error
        if response.status_code in _PASSING or response.status_code >= 500:
            raise UnreachableError(f"HTTP {response.status_code}", response.headers.get("retry-after", ""))
        return response


def _asked_pause(failure: UnreachableError) -> float:
    """The seconds that the server asks for in Retry-After, within reason; 0 where it asks for none."""
    asked = failure.args[1] if len(failure.args) > 1 else ""
    return min(float(asked), _LONGEST_PAUSE) if asked.isdecimal() else 0.0


def _content(response: httpx2.Response, place: str) -> Any:
    if not response.is_success:
        hint = " (set reward.model.token_env?)" if response.status_code in (401, 403) else ""
        raise ServiceError(f"{place}: expected success, got HTTP {response.status_code}{hint}: {_said(response)}")
    if not response.content:
        return None
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise ServiceError(f"{place}: expected JSON, got {response.text[:_SHOWN]!r}") from error


def _said(response: httpx2.Response) -> str:
    """The message in an error's body, as this package's server (`detail`) and vLLM (`error.message`) put it."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    message = body.get("detail") or body.get("error") or body.get("message") if isinstance(body, dict) else None
    if isinstance(message, dict):
        message = message.get("message")
    return (message if isinstance(message, str) else response.text)[:_SHOWN]


def _on_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
