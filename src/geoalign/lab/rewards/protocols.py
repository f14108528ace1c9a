"""How a reward server is asked: in requests that it takes, with answers that are checked."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

from geoalign.errors import ServiceError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.rewards.reward_client import RewardClient
from geoalign.shown import shown

Dialogue = list[dict[str, Any]]

# Around a dialogue in a request: brackets, quotes, names.
_AROUND = 64


class Protocol(ABC):
    """How a kind of server is asked."""

    def __init__(self, client: RewardClient, config: RewardModelConfig) -> None:
        self.client = client
        self.config = config

    @abstractmethod
    def connect(self, *, retry: bool) -> None:
        """Connects to the server and reads its limits or its model; without `retry` in one attempt."""

    @abstractmethod
    def batches(self, rows: Sequence[Dialogue]) -> Iterator[list[int]]:
        """The rows of each request, every row in one."""

    @abstractmethod
    def ask(self, rows: Sequence[Dialogue], counters: dict[str, int]) -> list[float]:
        """One reward per dialogue, NaN where it has none, which is counted."""


class GeoAlignProtocol(Protocol):
    """Speaks to `geoalign serve-reward`: as many responses a request as both sides allow, in responses and bytes."""

    _max_batch = _max_bytes = 0

    def connect(self, *, retry: bool) -> None:
        """Reads the server's limits."""
        url = f"{self.client.url}/health"
        health = self.client.ask("GET", "/health", retry=retry)
        if not isinstance(health, dict) or health.get("server") != "geoalign":
            raise ServiceError(
                f"{url}: expected a geoalign reward server, got {shown(health)}: for vLLM set reward.model.api"
            )
        batch, size = health.get("max_batch"), health.get("max_bytes")
        if not is_count(batch) or not is_count(size):
            raise ServiceError(f"{url}: expected max_batch and max_bytes, got {shown(health)}")
        self._max_batch, self._max_bytes = batch, size

    def batches(self, rows: Sequence[Dialogue]) -> Iterator[list[int]]:
        """In order; a dialogue that is larger than a request may be is sent alone."""
        largest = min(self.config.batch_size, self._max_batch)
        batch: list[int] = []
        size = 0
        for row, dialogue in enumerate(rows):
            own = _bytes(dialogue)
            if batch and (len(batch) == largest or size + own > self._max_bytes):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += own
        if batch:
            yield batch

    def ask(self, rows: Sequence[Dialogue], counters: dict[str, int]) -> list[float]:
        """Prompts and responses apart, as the server's `ScoreRequest`."""
        if len(rows) == 1 and _bytes(rows[0]) > self._max_bytes:
            counters["too_long"] += 1
            return [math.nan]
        body = {"prompts": [row[:-1] for row in rows], "responses": [row[-1]["content"] for row in rows]}
        reply = self.client.ask("POST", "/score", body)
        url = f"{self.client.url}/score"
        scores = reply.get("scores") if isinstance(reply, dict) else None
        if not isinstance(scores, list) or len(scores) != len(rows):
            raise ServiceError(f"{url}: expected {len(rows)} scores, got {shown(reply)}")
        rewards = [number_of(score, url) for score in scores]
        unexplained = sum(map(math.isnan, rewards))
        reasons = reply.get("unscored")
        for name in ("too_long", "empty"):
            count = reasons.get(name, 0) if isinstance(reasons, dict) else 0
            number = min(count, unexplained) if is_count(count) else 0
            counters[name] += number
            unexplained -= number
        counters["not_finite"] += unexplained
        return rewards


def _bytes(dialogue: Dialogue) -> int:
    """What a dialogue takes in a request, at most: JSON writes no character shorter than UTF-8 does."""
    return len(json.dumps(dialogue)) + _AROUND


def is_count(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number of at least 1; true is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def number_of(value: Any, url: str) -> float:
    """A score as a server gives it: a number, or null; NaN where it is none or not finite.

    Raises:
        ServiceError: anything else.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ServiceError(f"{url}: expected a number or null as a score, got {shown(value)}")
    try:
        number = math.nan if value is None else float(value)
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else math.nan
