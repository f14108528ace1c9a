"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST


class ServerMetrics:
    """Counters and times of one server, in a registry of their own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "geoalign_reward_requests", "Requests to score, by HTTP status", ["status"], registry=self._registry
        )
        self._scored = Counter("geoalign_reward_scored", "Responses with a score", registry=self._registry)
        self._unscored = Counter(
            "geoalign_reward_unscored", "Responses without a score, by reason", ["reason"], registry=self._registry
        )
        self._seconds = Histogram(
            "geoalign_reward_seconds", "Seconds of the model on one request", registry=self._registry
        )

    def answered(self, status: int) -> None:
        """Counts a request."""
        self._requests.labels(str(status)).inc()

    def scored(self, count: int, unscored: Mapping[str, int], seconds: float) -> None:
        """Counts the scores of one request."""
        self._scored.inc(count)
        for reason, number in unscored.items():
            self._unscored.labels(reason).inc(number)
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """All of them, in the format that Prometheus reads."""
        return generate_latest(self._registry)
