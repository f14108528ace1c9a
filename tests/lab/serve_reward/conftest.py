"""Starts servers; the helpers beside the tests are modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from running_server import Running

from geoalign.lab.serve_reward.app import reward_app


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """Starts the reward server around a source, or any other application."""
    running: list[Running] = []

    def start(source: Any = None, *, app: Any = None, token: str | None = None, **limits: int) -> Running:
        if app is None:
            app = reward_app(source, token=token, **{"max_batch": 64, "max_bytes": 100_000, **limits})
        running.append(Running(app))
        return running[-1]

    yield start
    for one in running:
        one.stop()
