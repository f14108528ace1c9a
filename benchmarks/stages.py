"""How long each stage of a `GeoAlign.curate` call takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

from geoalign.curators import geoalign as curator_module
from geoalign.curators.geoalign import GeoAlign
from geoalign.method import consensus as consensus_module

# Stage -> owner and name of its function. Training is part of scoring, and taken off it.
_STAGES: dict[str, tuple[Any, str]] = {
    "pairs": (curator_module, "paired_batch"),
    "training": (consensus_module, "distil"),
    "scoring": (GeoAlign, "_score"),
    "density": (curator_module, "flag_sparse_tail"),
    "decision": (curator_module, "rectify"),
}


def synchronise(device: torch.device) -> None:
    """Waits until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def stages_timed(device: torch.device, clock: Callable[[], float] = time.perf_counter) -> Iterator[dict[str, float]]:
    """Within the block the curator's own functions also measure how long they took, "rest" included, at its end.

    The device is waited for around each of them, so the whole takes longer than otherwise.
    """
    spent = dict.fromkeys(_STAGES, 0.0)
    with ExitStack() as stack:
        for name, (owner, attribute) in _STAGES.items():
            stack.enter_context(_timed(owner, attribute, name, spent, device, clock))
        synchronise(device)
        started = clock()
        yield spent
        synchronise(device)
        whole = clock() - started
    spent["scoring"] -= spent["training"]
    spent["rest"] = whole - sum(spent.values())


@contextmanager
def _timed(
    owner: Any, attribute: str, name: str, spent: dict[str, float], device: torch.device, clock: Callable[[], float]
) -> Iterator[None]:
    function = getattr(owner, attribute)

    @wraps(function)
    def timed(*arguments: Any, **keywords: Any) -> Any:
        synchronise(device)
        started = clock()
        try:
            return function(*arguments, **keywords)
        finally:
            synchronise(device)
            spent[name] += clock() - started

    setattr(owner, attribute, timed)
    try:
        yield
    finally:
        setattr(owner, attribute, function)
