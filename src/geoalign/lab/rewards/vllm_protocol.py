"""Reward models that vLLM serves: its /classify and /pooling endpoints, asked for raw outputs.

Formats: vLLM's `vllm.entrypoints.pooling` (`ClassificationCompletionRequest`, `PoolingCompletionRequest` and their
responses), versions 0.15 to 0.28.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from jinja2 import TemplateError

from geoalign.errors import ConfigError, InputError, ServiceError
from geoalign.lab.rewards.protocols import Dialogue, Protocol, is_count, number_of
from geoalign.pretrained import OwnCodeError, from_pretrained
from geoalign.shown import shown


class VLLMProtocol(Protocol):
    """Dialogues are written out here in the tokenizer's chat template, so that the server adds nothing to them."""

    _model = ""
    _longest: int | None = None
    _tokenizer: Any = None

    def connect(self, *, retry: bool) -> None:
        """Reads the served model's name and longest input, and loads the tokenizer."""
        url = f"{self.client.url}/v1/models"
        reply = self.client.ask("GET", "/v1/models", retry=retry)
        models = reply.get("data") if isinstance(reply, dict) else None
        model = models[0] if isinstance(models, list) and models else None
        name, longest = (model.get("id"), model.get("max_model_len")) if isinstance(model, dict) else (None, None)
        if not isinstance(name, str) or not (longest is None or is_count(longest)):
            raise ServiceError(f"{url}: expected vLLM's list of models, got {shown(reply)}")
        self._model = name
        limits = [self.config.max_length, longest]
        self._longest = min((limit for limit in limits if limit is not None), default=None)
        self._tokenizer = _tokenizer(self.config.tokenizer or self._model, self.config.trust_remote_code)

    def batches(self, rows: Sequence[Dialogue]) -> Iterator[list[int]]:
        """In order, `batch_size` at a time."""
        for start in range(0, len(rows), self.config.batch_size):
            yield list(range(start, min(start + self.config.batch_size, len(rows))))

    def ask(self, rows: Sequence[Dialogue], counters: dict[str, int]) -> list[float]:
        """Leaves out what the model cannot take: vLLM would refuse the whole request for it."""
        rewards = [math.nan] * len(rows)
        texts: dict[int, str] = {}
        empty = too_long = 0
        for index, row in enumerate(rows):
            text = self._written(row)
            tokens = len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
            if tokens == 0:
                empty += 1
            elif self._longest is not None and tokens > self._longest:
                too_long += 1
            else:
                texts[index] = text
        if texts:
            for index, reward in zip(texts, self._scores(list(texts.values())), strict=True):
                rewards[index] = reward
        # Counted only now: where the server stays away, the whole request counts as unreachable.
        counters["empty"] += empty
        counters["too_long"] += too_long
        counters["not_finite"] += sum(math.isnan(rewards[index]) for index in texts)
        return rewards

    def _written(self, row: Dialogue) -> str:
        try:
            return str(self._tokenizer.apply_chat_template(row, tokenize=False))
        except (TemplateError, TypeError, KeyError) as error:
            raise InputError(
                f"prompts: expected messages that the reward model's chat template takes, got: {error}"
            ) from error

    def _scores(self, texts: list[str]) -> list[float]:
        pooling = self.config.api == "vllm_pooling"
        path = "/pooling" if pooling else "/classify"
        # The template has written the special tokens; the raw output is wanted, not its sigmoid or softmax.
        body = {"model": self._model, "input": texts, "add_special_tokens": False, "use_activation": False}
        reply = self.client.ask("POST", path, {**body, "task": "classify"} if pooling else body)
        url = f"{self.client.url}{path}"
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
    """The only number of a result; of one result per token, that of the last."""
    if isinstance(values, list) and values and isinstance(values[-1], list):
        values = values[-1]
    if not isinstance(values, list) or len(values) != 1:
        raise ServiceError(f"{url}: expected one output a response, got {shown(values)}")
    return number_of(values[0], url)
