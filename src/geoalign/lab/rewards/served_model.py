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
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from geoalign.errors import ConfigError, InputError, ServiceError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.http_client import BadReplyError, HTTPClient, RefusedError, UnreachableError, read_json, token_from
from geoalign.lab.rewards.base import dialogues
from geoalign.pretrained import OwnCodeError, from_pretrained
from geoalign.shown import shown

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

_REASONS = ("too_long", "empty", "not_finite", "unreachable")

Dialogue = list[dict[str, Any]]


class ServedRewardModel:
    """Scores responses by a server, some at a time; a context manager that closes its connections.

    Dialogues are written out here in the tokenizer's chat template, so that the server adds nothing to them. A server
    that is away (restarting, overloaded, late) is asked again, with growing pauses, for `patience` seconds; then the
    rest of the batch stays unscored (NaN), and nothing that has been scored is lost. `counters` counts, since the
    start: responses scored, and those without a score: too_long, empty, not_finite (as `RewardModelScorer`),
    unreachable.

    Raises:
        ConfigError: no token in the variable that `token_env` names, or `url` cannot be asked.
        MissingExtraError: httpx2 is not installed.
    """

    __name__ = "reward_model"
    binary = False

    def __init__(self, config: RewardModelConfig) -> None:
        self._config = config
        self._client = _Client(config)
        self._model = ""  # the served one's name; "" before the first answer
        self._longest: int | None = None
        self._tokenizer: Any = None
        self.counters = dict.fromkeys(("scored", *_REASONS), 0)

    def check(self) -> None:
        """Raises ConfigError unless the server is there and speaks as set; asks it once."""
        try:
            self._connect(retry=False)
        except UnreachableError as error:
            raise ConfigError(
                f"reward.model.url: expected a server at {self._client.url}, got none: {error.args[0]}"
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
            self._connect(retry=True)
            for start in range(0, len(rows), size):
                rewards += self._ask(rows[start : start + size])
        except UnreachableError:
            self.counters["unreachable"] += len(rows) - len(rewards)
        rewards += [math.nan] * (len(rows) - len(rewards))
        self.counters["scored"] += sum(not math.isnan(reward) for reward in rewards)
        return rewards

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def __enter__(self) -> ServedRewardModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self, *, retry: bool) -> None:
        """Reads the served model's name and longest input, and loads the tokenizer."""
        if self._model:
            return
        reply = self._client.ask("GET", "/v1/models", retry=retry)
        models = reply.get("data") if isinstance(reply, dict) else None
        model = models[0] if isinstance(models, list) and models else None
        name, longest = (model.get("id"), model.get("max_model_len")) if isinstance(model, dict) else (None, None)
        if not isinstance(name, str) or not (longest is None or (type(longest) is int and longest > 0)):
            raise ServiceError(f"{self._client.url}/v1/models: expected vLLM's list of models, got {shown(reply)}")
        limits = [self._config.max_length, longest]
        self._longest = min((limit for limit in limits if limit is not None), default=None)
        self._tokenizer = _tokenizer(self._config.tokenizer or name, self._config.trust_remote_code)
        self._model = name

    def _ask(self, rows: Sequence[Dialogue]) -> list[float]:
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

    def _written(self, row: Dialogue) -> str:
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
        reply = self._client.ask("POST", path, {**body, "task": "classify"} if pooling else body)
        url = f"{self._client.url}{path}"
        items = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(items, list) or len(items) != len(texts) or not all(isinstance(item, dict) for item in items):
            raise ServiceError(f"{url}: expected {len(texts)} results, got {shown(reply)}")
        # As text, in which true is no 1, and a list no key that fails.
        by_index = {json.dumps(item.get("index")): item.get("data" if pooling else "probs") for item in items}
        expected = [str(index) for index in range(len(texts))]
        if by_index.keys() != set(expected):
            raise ServiceError(f"{url}: expected the results 0 to {len(texts) - 1}, got {shown(sorted(by_index))}")
        scores = [_score(by_index[index], url) for index in expected]
        if len(scores) > 1 and all(score == 1.0 for score in scores):
            raise ServiceError(
                f"{url}: expected raw outputs, got 1.0 for each of {len(scores)} responses, the softmax of a single "
                f"label: does this vLLM know use_activation?"
            )
        return scores


class _Client:
    """JSON from one server for synchronous callers, see `HTTPClient`; its thread begins with the first request."""

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
        """The JSON of the answer; without `retry` in one attempt."""
        if self._portal is None:
            from anyio.from_thread import start_blocking_portal  # comes with httpx2

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
        return read_json(data)
    except ValueError as error:
        text = shown(data[:4096].decode("utf-8", errors="replace"))
        raise BadReplyError(f"expected JSON, got {text}: {error}") from error


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


def _score(values: Any, url: str) -> float:
    """The only number of a result, of one result per token that of the last; NaN where it is null or not finite."""
    if isinstance(values, list) and values and isinstance(values[-1], list):
        values = values[-1]
    if not isinstance(values, list) or len(values) != 1:
        raise ServiceError(f"{url}: expected one output a response, got {shown(values)}")
    (value,) = values
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ServiceError(f"{url}: expected a number or null as a score, got {shown(value)}")
    try:
        number = math.nan if value is None else float(value)
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else math.nan
