"""Rewards from a model that vLLM serves, by its /classify or /pooling endpoint, asked for raw outputs.

Formats: vLLM's `vllm.entrypoints.pooling` (`ClassificationCompletionRequest`, `PoolingCompletionRequest` and their
responses), versions 0.15 to 0.28.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, Field

from geoalign.endpoint.http_client import (
    BadReplyError,
    HTTPClient,
    RefusedError,
    RefusedTextError,
    UnreachableError,
    token_from,
)
from geoalign.errors import ConfigError, ServiceError
from geoalign.lab.rewards.chat_model import ChatRewardModel, Written
from geoalign.lab.rewards.settings import RewardModelConfig
from geoalign.pretrained.from_pretrained import from_pretrained, loading
from geoalign.text import one_line

_Numbers = list[float | None]


class _Result(BaseModel, strict=True):
    index: int
    # One output per response, or (of some poolers) one per token.
    outputs: _Numbers | list[_Numbers] = Field(validation_alias=AliasChoices("probs", "data"))


class _Results(BaseModel):
    data: list[_Result]


class _Served(BaseModel, strict=True):
    id: str
    max_model_len: Annotated[int, Field(gt=0)] | None = None


class _ServedModels(BaseModel):
    data: Annotated[list[_Served], Field(min_length=1)]


_Reply = TypeVar("_Reply", _Results, _ServedModels)


class ServedRewardModel(ChatRewardModel):
    """Scores by a server, a batch at a time; dialogues are written out here, so that the server adds nothing to them.

    A server that is away (restarting, overloaded, late) is asked again, with growing pauses, for `patience` seconds;
    then the rest stays unscored (NaN), and nothing that has been scored is lost. A response that it refuses (HTTP 400,
    413, 422 or 451) stays unscored alone; other refusals, of the token or the address, are errors.
    """

    def __init__(self, config: RewardModelConfig) -> None:
        assert config.url is not None
        super().__init__(config.batch_size, "unreachable", "refused")
        self._config = config
        self._client = HTTPClient(
            config.url,
            key="reward.model.url",
            timeout=config.timeout,
            patience=config.patience,
            token=token_from(config.token_env, key="reward.model.token_env") if config.token_env else "",
        )
        # A thread of its own: a trainer may call from within a running loop, and connections stay alive between calls.
        self._thread = ExitStack()
        self._portal: Any = None
        self._model = ""  # the served one's name; "" before the first answer

    def check(self) -> None:
        """Raises ConfigError unless the server is there and speaks as set; asks it once."""
        try:
            self.open(once=True)
        except UnreachableError as error:
            raise ConfigError(
                f"reward.model.url: expected a server at {self._config.url}, got none: {error.args[0]}"
            ) from error
        except ServiceError as error:
            raise ConfigError(f"reward.model.url: {error}") from error

    def close(self) -> None:
        if self._portal is not None:
            self._portal.call(self._client.aclose)
            self._portal = None
        self._thread.close()

    def open(self, *, once: bool = False) -> None:
        if self._model:
            return
        model = self._reply(_ServedModels, "GET", "/v1/models", once=once).data[0]
        limits = [self._config.max_length, model.max_model_len]
        self.longest = min((limit for limit in limits if limit is not None), default=None)
        self.tokenizer = _tokenizer(self._config.tokenizer or model.id, self._config.trust_remote_code)
        self._model = model.id

    def scores(self, batch: Sequence[Written]) -> list[float]:
        pooling = self._config.api == "vllm_pooling"
        path = "/pooling" if pooling else "/classify"
        texts = [written.text for written in batch]
        # The template has written the special tokens; the raw output is wanted, not its sigmoid or softmax.
        body = {"model": self._model, "input": texts, "add_special_tokens": False, "use_activation": False}
        reply = self._reply(_Results, "POST", path, {**body, "task": "classify"} if pooling else body)
        by_index = {item.index: item.outputs for item in reply.data}
        if len(reply.data) != len(texts) or sorted(by_index) != list(range(len(texts))):
            got = [item.index for item in reply.data][:20]
            raise ServiceError(f"{self._config.url}{path}: expected the results 0 to {len(texts) - 1}, got {got}")
        scores = [self._score(by_index[index], path) for index in range(len(texts))]
        if len(scores) > 1 and all(score == 1.0 for score in scores):
            raise ServiceError(
                f"{self._config.url}{path}: expected raw outputs, got 1.0 for each of {len(scores)} responses, the "
                "softmax of a single label: does this vLLM know use_activation?"
            )
        return scores

    def _score(self, outputs: _Numbers | list[_Numbers], path: str) -> float:
        """The only number of a result, of one result per token that of the last; NaN where it is null or not finite."""
        last = outputs[-1] if outputs else None
        values = last if isinstance(last, list) else outputs
        if len(values) != 1:
            raise ServiceError(f"{self._config.url}{path}: expected one output a response, got {len(values)}")
        (value,) = values
        return value if isinstance(value, float) and math.isfinite(value) else math.nan

    def _reply(
        self, kind: type[_Reply], method: str, path: str, body: dict[str, Any] | None = None, *, once: bool = False
    ) -> _Reply:
        """The server's answer; with `once` in one attempt."""

        def read(data: bytes) -> _Reply:
            try:
                return kind.model_validate_json(data)
            except ValueError as error:
                got = self._client.quoted(data[:4096].decode("utf-8", errors="replace"))
                raise BadReplyError(f"expected vLLM's format, got {got}: {one_line(error)}") from error

        content = None if body is None else json.dumps(body).encode("ascii")
        if self._portal is None:
            from anyio.from_thread import start_blocking_portal  # comes with httpx2

            self._portal = self._thread.enter_context(start_blocking_portal(name="reward-client"))
        waiting = self._portal.start_task_soon(partial(self._client.ask, method, path, read, content, once=once))
        try:
            answer: _Reply = waiting.result()
            return answer
        except RefusedError as error:
            hint = " (set reward.model.token_env?)" if error.status in (401, 403) else ""
            raise ServiceError(f"{self._config.url}{path}: expected success, got{hint} {error}") from error
        except RefusedTextError as error:
            raise RefusedTextError(f"{self._config.url}{path}: {error}") from error
        except BadReplyError as error:
            raise ServiceError(f"{self._config.url}{path}: {error}") from error
        finally:
            waiting.cancel()  # on Ctrl-C the request ends too


def _tokenizer(model: str, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    with loading("reward.model.tokenizer: expected a tokenizer", model):
        tokenizer: Any = from_pretrained(
            AutoTokenizer, model, trust_remote_code=trust_remote_code, setting="reward.model.trust_remote_code"
        )
    if tokenizer.chat_template is None:
        raise ConfigError(f"reward.model.tokenizer: expected one with a chat template, got none in {model!r}")
    return tokenizer
