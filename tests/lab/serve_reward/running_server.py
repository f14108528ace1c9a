"""Real servers on loopback, in threads, around sources that need no model."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import uvicorn

from geoalign.lab.serve_reward.server import server_settings


class Lengths:
    """Scores a response by its length; `too long` and `odd` ones not at all. Notes what it is asked, and when."""

    binary = False

    def __init__(self, seconds: float = 0.0) -> None:
        self.counters = {"scored": 0, "too_long": 0, "empty": 0, "not_finite": 0}
        self.calls: list[list[str]] = []
        self.prompts: list[Any] = []
        self.inside = self.most_inside = 0
        self.seconds = seconds

    def score(self, responses: Sequence[str], answers: Sequence[str], *, prompts: Any = None) -> list[float]:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.calls.append(list(responses))
        self.prompts.extend(prompts)
        time.sleep(self.seconds)
        rewards = []
        for text in responses:
            reason = {"too long": "too_long", "odd": "not_finite"}.get(text, "scored")
            self.counters[reason] += 1
            rewards.append(float(len(text)) if reason == "scored" else math.nan)
        self.inside -= 1
        return rewards


class Running:
    """A uvicorn server in a thread; `stop` and `start` again keep its port."""

    def __init__(self, app: Any) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.app = app
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.server = uvicorn.Server(server_settings(self.app, host="127.0.0.1", port=self.port))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        deadline = time.monotonic() + 30
        while not self.server.started:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(30)
