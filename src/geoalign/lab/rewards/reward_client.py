"""JSON from a reward server, for synchronous callers: the shared client in a thread of its own."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from typing import Any

from geoalign.errors import MissingExtraError, ServiceError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.http_client.token import token_from
from geoalign.shown import shown

try:
    from anyio.from_thread import BlockingPortal, start_blocking_portal

    from geoalign.lab.http_client.client import BadReplyError, HTTPClient, RefusedError, UnreachableError, read_json
except ImportError as _absent:
    raise MissingExtraError("a reward model behind a URL needs httpx2: pip install 'geoalign[trl]'") from _absent

__all__ = ["RewardClient", "UnreachableError"]


class RewardClient:
    """Talks JSON to one server, see `HTTPClient`; its thread begins with the first request and ends with `close`.

    Args:
        config: `url`, `token_env`, `timeout` of one attempt, `patience` with one request over all its attempts.

    Raises:
        ConfigError: the variable that `token_env` names holds no token, or `url` cannot be asked.
    """

    def __init__(self, config: RewardModelConfig) -> None:
        assert config.url is not None
        self.url = config.url
        self._client = HTTPClient(
            config.url,
            key="reward.model.url",
            timeout=config.timeout,
            patience=config.patience,
            token=token_from(config.token_env, key="reward.model.token_env") if config.token_env else "",
        )
        self._portal: BlockingPortal | None = None
        self._thread = ExitStack()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, *, retry: bool = True) -> Any:
        """The JSON of the answer; None where it has no body.

        Args:
            retry: False: one attempt only.

        Raises:
            UnreachableError: no answer, or one that says to come again, until `patience` has passed.
            ServiceError: any other answer but success, or no JSON.
        """
        if self._portal is None:
            self._portal = self._thread.enter_context(start_blocking_portal(name="reward-client"))
        content = None if body is None else json.dumps(body).encode("ascii")
        waiting = self._portal.start_task_soon(
            partial(self._client.ask, method, path, _content, content, once=not retry)
        )
        try:
            return waiting.result()
        except RefusedError as error:
            hint = " (set reward.model.token_env?)" if error.status in (401, 403) else ""
            raise ServiceError(
                f"{self.url}{path}: expected success, got HTTP {error.status}{hint}: {error.said}"
            ) from error
        except BadReplyError as error:
            raise ServiceError(f"{self.url}{path}: {error}") from error
        finally:
            waiting.cancel()  # on Ctrl-C the request ends too

    def close(self) -> None:
        """Closes the connections and ends the thread."""
        if self._portal is not None:
            self._portal.call(self._client.aclose)
            self._portal = None
        self._thread.close()


def _content(data: bytes) -> Any:
    try:
        return read_json(data) if data else None
    except ValueError as error:
        text = shown(data[:4096].decode("utf-8", errors="replace"))
        raise BadReplyError(f"expected JSON, got {text}: {error}") from error
