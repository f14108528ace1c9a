"""Seconds and peak extra memory of a call on a device: synchronised, after calls that warm it up."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from geoalign.lab.bench.stages import synchronise


@dataclass(frozen=True)
class Cost:
    """What one part of a step costs: seconds of each repeat, peak extra megabytes (NaN: not measured).

    `scale`: the seconds are this many times those measured, because only a share of the batch was passed through.
    """

    seconds: tuple[float, ...]
    megabytes: float = math.nan
    scale: float = 1.0

    @property
    def median(self) -> float:
        """Median of the repeats."""
        return statistics.median(self.seconds)

    def scaled(self, factor: float) -> Cost:
        """The cost of `factor` times as much of the same; memory stays, because the pieces follow one another."""
        return Cost(tuple(factor * value for value in self.seconds), self.megabytes, self.scale * factor)


def measure(call: Callable[[int], object], *, repeats: int, warmups: int, device: torch.device) -> Cost:
    """Calls with 0, 1, 2, ...: first to warm up, then as often to measure.

    Memory is what torch's allocator held at most, above what it held before; on a CPU it is not measured.
    """
    for number in range(warmups):
        call(number)
    seconds, extra = [], math.nan
    for number in range(warmups, warmups + repeats):
        synchronise(device)
        before = _start_of_peak(device)
        started = time.perf_counter()
        call(number)
        synchronise(device)
        seconds.append(time.perf_counter() - started)
        if device.type == "cuda":
            found = (torch.cuda.max_memory_allocated(device) - before) / 2**20
            extra = found if math.isnan(extra) else max(extra, found)
    return Cost(tuple(seconds), extra)


def _start_of_peak(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)
