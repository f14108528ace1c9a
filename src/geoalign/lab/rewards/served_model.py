"""Rewards from a model that vLLM serves, by its /classify or /pooling endpoint, asked for raw outputs.

Formats: vLLM's `vllm.entrypoints.pooling` (`ClassificationCompletionRequest`, `PoolingCompletionRequest` and their
responses), versions 0.15 to 0.28.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, Field

from geoalign.answers.calls import awaited
from geoalign.endpoint.client import Endpoint, token_from
from geoalign.errors import ConfigError, ServiceError
from geoalign.lab.rewards.chat_model import ChatRewardModel, Written
from geoalign.lab.rewards.settings import RewardModelConfig
from geoalign.pretrained.from_pretrained import from_pretrained, loading
from geoalign.text import one_line


class _Result(BaseModel, strict=True):
    index: int
    outputs: list[float | None] = Field(validation_alias=AliasChoices("probs", "data"))


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
        self._server = Endpoint(
            config.url,
            token="" if config.token_env is None else token_from(config.token_env),
            timeout=config.timeout,
            patience=config.patience,
        )
        self._path = "/pooling" if config.api == "vllm_pooling" else "/classify"
        self._model = ""  # the served one's name; "" before the first answer

    def check(self) -> None:
        """Raises ConfigError unless the server is there and speaks as set; asks it once."""
        try:
            self.open(once=True)
        except ServiceError as error:
            raise ConfigError(f"reward.model.url: no reward model answers there: {error}") from error

    def close(self) -> None:
        awaited(self._server.aclose())

    def open(self, *, once: bool = False) -> None:
        """Asks for the served model's name and limit, unless they are known, and loads its tokenizer."""
        if self._model:
            return
        model = self._reply(_ServedModels, "/v1/models", once=once).data[0]
        limits = [self._config.max_length, model.max_model_len]
        self.longest = min((limit for limit in limits if limit is not None), default=None)
        self.tokenizer = _tokenizer(self._config.tokenizer or model.id, self._config.trust_remote_code)
        self._model = model.id

    def scores(self, batch: Sequence[Written]) -> list[float]:
        """The server's output for each dialogue; ServiceError where its answer means something else."""
        body: dict[str, Any] = {
            "model": self._model,
            "input": [written.text for written in batch],
            # The template has written the special tokens.
            "add_special_tokens": False,
            # The raw output is wanted, not its sigmoid or softmax.
            "use_activation": False,
        }
        if self._config.api == "vllm_pooling":
            body["task"] = "classify"
        results = self._reply(_Results, self._path, body).data
        results.sort(key=lambda result: result.index)
        indices = [result.index for result in results]
        if indices != list(range(len(batch))):
            raise self._error(f"expected the results 0 to {len(batch) - 1}, got {indices[:20]}")
        scores = [self._score(result.outputs) for result in results]
        if len(scores) > 1 and all(score == 1.0 for score in scores):
            raise self._error(
                f"expected raw outputs, got 1.0 for each of {len(scores)} responses, the softmax of a single label: "
                "does this vLLM know use_activation?"
            )
        return scores

    def _score(self, outputs: list[float | None]) -> float:
        """The only number of a result; NaN where it is null or not finite."""
        if len(outputs) != 1:
            raise self._error(f"expected one output a response, got {len(outputs)}")
        value = outputs[0]
        return value if value is not None and math.isfinite(value) else math.nan

    def _reply(
        self, kind: type[_Reply], path: str, body: dict[str, Any] | None = None, *, once: bool = False
    ) -> _Reply:
        """The server's answer to a request; with `once` in one attempt."""
        reply = awaited(self._server.ask(path, body, once=once))
        try:
            return kind.model_validate_json(reply)
        except ValueError as error:
            raise self._error(f"expected vLLM's format, got {self._server.quoted(reply)}: {one_line(error)}") from error

    def _error(self, message: str) -> ServiceError:
        return ServiceError(f"{self._server.url}{self._path}: {message}")


def _tokenizer(model: str, trust_remote_code: bool) -> Any:
    """The tokenizer of a served model, with a chat template; ConfigError where there is none."""
    from transformers import AutoTokenizer

    with loading("reward.model.tokenizer: expected a tokenizer", model):
        tokenizer: Any = from_pretrained(
            AutoTokenizer, model, trust_remote_code=trust_remote_code, setting="reward.model.trust_remote_code"
        )
    if tokenizer.chat_template is None:
        raise ConfigError(f"reward.model.tokenizer: expected one with a chat template, got none in {model!r}")
    return tokenizer
