"""Rewards from a model behind HTTP: `geoalign serve-reward`, or vLLM's classification and pooling endpoints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from geoalign.errors import ConfigError, ServiceError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.rewards.base import dialogues
from geoalign.lab.rewards.protocols import GeoAlignProtocol
from geoalign.lab.rewards.reward_client import RewardClient, UnreachableError
from geoalign.lab.rewards.vllm_protocol import VLLMProtocol

_REASONS = ("too_long", "empty", "not_finite", "unreachable")


class ServedRewardModel:
    """Scores responses by a server, some at a time; a context manager that closes its connections.

    A server that is away (restarting, overloaded, late) is asked again, with growing pauses, for `patience` seconds;
    then the rest of the batch stays unscored (NaN), and nothing that has been scored is lost. `counters` counts, since
    the start: responses scored, and those without a score: too_long, empty, not_finite (as `RewardModelScorer`),
    unreachable.

    Raises:
        ConfigError: no token in the variable that `token_env` names.
    """

    __name__ = "reward_model"
    binary = False

    def __init__(self, config: RewardModelConfig) -> None:
        self._client = RewardClient(config)
        kind = GeoAlignProtocol if config.api == "geoalign" else VLLMProtocol
        self._protocol = kind(self._client, config)
        self._connected = False
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
        """One reward per response; NaN for one that cannot be scored. `answers` is left unread.

        Raises:
            InputError: no prompts, lengths differ, a response is no text or a prompt no list of messages.
            ServiceError: the server refuses a request (its message is in the error) or breaks its own format.
        """
        rows = dialogues(responses, prompts)
        rewards = [math.nan] * len(rows)
        done = 0
        try:
            self._connect(retry=True)
            for batch in self._protocol.batches(rows):
                scores = self._protocol.ask([rows[row] for row in batch], self.counters)
                for row, reward in zip(batch, scores, strict=True):
                    rewards[row] = reward
                done += len(batch)
        except UnreachableError:
            self.counters["unreachable"] += len(rows) - done
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
        if not self._connected:
            self._protocol.connect(retry=retry)
            self._connected = True
