"""Asking verl's actor workers, which are Ray actors, through Ray's own `__ray_call__`."""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import RayTaskError


def engines_of(group: Any, strategy: str) -> list[str | None]:
    """The engine class that each worker's process would run; None where geoalign cannot be imported there."""
    answers: list[str | None] = []
    for reference in [worker.__ray_call__.remote(_engine_here, strategy) for worker in group.workers]:
        try:
            answers.append(ray.get(reference))
        except RayTaskError as error:
            if not isinstance(error.cause, ModuleNotFoundError):
                raise
            answers.append(None)
    return answers


def _engine_here(worker: Any, strategy: str) -> str:
    from verl.workers.engine.base import EngineRegistry

    engine = EngineRegistry.get_engine_cls("language_model", strategy)
    return f"{engine.__module__}.{engine.__qualname__}"
