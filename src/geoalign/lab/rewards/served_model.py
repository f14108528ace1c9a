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

from jinja2 import TemplateError
from pydantic import AliasChoices, BaseModel, Field

from geoalign.errors import ConfigError, InputError, ServiceError
from geoalign.lab.config.rewards import RewardModelConfig
from geoalign.lab.http_client import BadReplyError, HTTPClient, RefusedError, UnreachableError, token_from
from geoalign.lab.rewards.base import dialogues
from geoalign.pretrained import OwnCodeError, from_pretrained
from geoalign.shown import brief

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


class ServedRewardModel:
    """Scores responses by a server, some at a time; a context manager that closes its connections.

    Dialogues are written out here in the tokenizer's chat template, so that the server adds nothing to them. A server
    that is away (restarting, overloaded, late) is asked again, with growing pauses, for `patience` seconds; then the
    rest of the batch stays unscored (NaN), and nothing that has been scored is lost. `counters` counts, since the
    start: responses scored, and those without a score: too_long, empty, not_finite (as `RewardModelScorer`),
    unreachable.
    """

    __name__ = "reward_model"
    binary = False

    def __init__(self, config: RewardModelConfig) -> None:
        assert config.url is not None
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
        self._longest: int | None = None
        self._tokenizer: Any = None
        self.counters = dict.fromkeys(("scored", "too_long", "empty", "not_finite", "unreachable"), 0)

    def check(self) -> None:
        """Raises ConfigError unless the server is there and speaks as set; asks it once."""
        try:
            self._connect(once=True)
        except UnreachableError as error:
            raise ConfigError(
                f"reward.model.url: expected a server at {self._config.url}, got none: {error.args[0]}"
            ) from error
        except ServiceError as error:
            raise ConfigError(f"reward.model.url: {error}") from error

    def score(
        self, responses: Sequence[str], answers: Sequence[str], *, prompts: Sequence[Any] | None = None
    ) -> list[float]:
        """One reward per response; NaN for one that cannot be scored. `answers` is left unread."""
        rows = dialogues(responses, prompts)
        rewards: list[float] = []
        size = self._config.batch_size
        try:
            self._connect()
            for start in range(0, len(rows), size):
                rewards += self._ask(rows[start : start + size])
        except UnreachableError:
            self.counters["unreachable"] += len(rows) - len(rewards)
        rewards += [math.nan] * (len(rows) - len(rewards))
        self.counters["scored"] += sum(not math.isnan(reward) for reward in rewards)
        return rewards

    def close(self) -> None:
        """Closes the connections."""
        if self._portal is not None:
            self._portal.call(self._client.aclose)
            self._portal = None
        self._thread.close()

    def __enter__(self) -> ServedRewardModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self, *, once: bool = False) -> None:
        """Reads the served model's name and longest input, and loads the tokenizer."""
        if self._model:
            return
        model = self._reply(_ServedModels, "GET", "/v1/models", once=once).data[0]
        limits = [self._config.max_length, model.max_model_len]
        self._longest = min((limit for limit in limits if limit is not None), default=None)
        self._tokenizer = _tokenizer(self._config.tokenizer or model.id, self._config.trust_remote_code)
        self._model = model.id

    def _ask(self, rows: Sequence[list[dict[str, Any]]]) -> list[float]:
        """One request; leaves out what the model cannot take: vLLM would refuse all of it for that."""
        rewards = [math.nan] * len(rows)
        texts: dict[int, str] = {}
        left_out = {"empty": 0, "too_long": 0}
        for index, row in enumerate(rows):
            text = self._written(row)
            tokens = len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
            if tokens == 0:
                left_out["empty"] += 1
            elif self._longest is not None and tokens > self._longest:
                left_out["too_long"] += 1
            else:
                texts[index] = text
        if texts:
            for index, reward in zip(texts, self._scores(list(texts.values())), strict=True):
                rewards[index] = reward
        # Counted only now: where the server stays away, the whole request counts as unreachable.
        for name, number in left_out.items():
            self.counters[name] += number
        self.counters["not_finite"] += sum(math.isnan(rewards[index]) for index in texts)
        return rewards

    def _written(self, row: list[dict[str, Any]]) -> str:
        try:
            return str(self._tokenizer.apply_chat_template(row, tokenize=False))
        except (TemplateError, TypeError, KeyError) as error:
            raise InputError(
                f"prompts: expected messages that the reward model's chat template takes, got: {error}"
            ) from error

    def _scores(self, texts: list[str]) -> list[float]:
        pooling = self._config.api == "vllm_pooling"
        path = "/pooling" if pooling else "/classify"
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
                raise BadReplyError(f"expected vLLM's format, got {got}: {brief(error)}") from error

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
        except BadReplyError as error:
            raise ServiceError(f"{self._config.url}{path}: {error}") from error
        finally:
            waiting.cancel()  # on Ctrl-C the request ends too


def _tokenizer(model: str, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = from_pretrained(
            AutoTokenizer, model, trust_remote_code=trust_remote_code, setting="reward.model.trust_remote_code"
        )
    except OwnCodeError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"reward.model.tokenizer: expected a tokenizer, got {model!r}: {error}") from error
    if tokenizer.chat_template is None:
        raise ConfigError(f"reward.model.tokenizer: expected one with a chat template, got none in {model!r}")
    return tokenizer
