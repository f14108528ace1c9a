"""`geoalign bench`: time and peak extra memory of a whole `curate` call here, by shape, in a table and as JSON."""

from __future__ import annotations

import ctypes
import dataclasses
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch
from rich.table import Table

from geoalign.console.numbers import decimals
from geoalign.console.terminal import Console
from geoalign.curators.denoise import Denoise
from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.errors import ConfigError
from geoalign.files.json_files import write_json
from geoalign.lab.bench.command import BenchRequest
from geoalign.method.projector import ProjectorConfig
from geoalign.testing.synthetic import synthetic_rollouts
from geoalign.text import quote
from geoalign.types import Rollouts

DEFAULT_SHAPES = ("96x8x2048", "96x16x2048")
DENOISE_WARM_UP = 2
# All 50 steps: a figure that stops early is one of the batch.
WHOLE = GeoAlignConfig(projector=ProjectorConfig(target_accuracy=None))
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Shape:
    """Groups x rollouts of each x hidden size."""

    groups: int
    size: int
    d: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Reads "96x16x2048"; ConfigError where the text is not three positive numbers."""
        match = re.fullmatch("0*([1-9][0-9]{0,8})x0*([1-9][0-9]{0,8})x0*([1-9][0-9]{0,8})", text.lower())
        if match is None:
            raise ConfigError(f"--shape: expected GROUPSxKxHIDDEN such as 96x16x2048, got {quote(text)}")
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.groups} x {self.size}, d = {self.d}"


@dataclass(frozen=True)
class Measured:
    """One shape: `GeoAlign` at its defaults without early stop, and `Denoise` at its defaults, after `DENOISE_WARM_UP`
    calls.

    Times are medians of `repeats` calls, memory the peak above what the process held before the call (NaN: unknown).
    """

    shape: Shape
    pairs: int
    seconds: float
    extra_megabytes: float
    denoise_seconds: float
    denoise_megabytes: float


def measure(shape: Shape, device: str, repeats: int) -> Measured:
    rollouts, pairs = planted(shape, 0, device), 0

    def curate() -> None:
        nonlocal pairs
        curation = GeoAlign(WHOLE).curate(rollouts, generator=torch.Generator().manual_seed(0))
        pairs = int(curation.metrics["pairs"])

    cost = call_cost(curate, repeats, device)
    denoise = Denoise()
    # A new batch of the same planted direction at each call.
    batches = [planted(shape, seed, device) for seed in range(DENOISE_WARM_UP + repeats)]
    for batch in batches[:DENOISE_WARM_UP]:
        denoise.curate(batch)
    left = iter(batches[DENOISE_WARM_UP:])
    return Measured(shape, pairs, *cost, *call_cost(lambda: denoise.curate(next(left)), repeats, device))


def in_fresh_processes(
    measured: Callable[[Shape, str, int], _Result], shapes: Sequence[Shape], device: str, repeats: int
) -> list[_Result]:
    """Measures each shape in a process of its own, so that the memory of one does not hide that of the next."""
    results = []
    for shape in shapes:
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            results.append(pool.submit(measured, shape, device, repeats).result())
    return results


def planted(shape: Shape, seed: int, device: str) -> Rollouts:
    """Synthetic rollouts of a shape, with what an engine gives and no more."""
    made = synthetic_rollouts(shape.groups, shape.size, shape.d, seed=seed).rollouts
    assert made.hidden is not None
    return Rollouts(rewards=made.rewards, groups=made.groups, hidden=made.hidden.to(device))


def call_cost(call: Callable[[], object], repeats: int, device: str) -> tuple[float, float]:
    """Median seconds and peak extra megabytes of the calls."""
    on_cpu = device == "cpu"
    if on_cpu:
        reset_peak()
    else:
        torch.cuda.reset_peak_memory_stats()
    peak = peak_bytes if on_cpu else lambda: float(torch.cuda.max_memory_allocated())
    before, seconds = peak(), []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        if not on_cpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), (peak() - before) / 2**20


def reset_peak() -> None:
    """Lets the high-water mark begin again at what the process holds now, freed pages given back (Linux alone)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> float:
    """The high-water mark of resident memory; NaN where the system does not say."""
    if sys.platform != "linux":
        return float("nan")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    return float("nan")


def bench(request: BenchRequest, console: Console) -> None:
    shapes = [Shape.parse(text) for text in request.shapes or DEFAULT_SHAPES]
    if request.device != "cpu" and not torch.cuda.is_available():
        raise ConfigError(f"--device: expected cpu, or cuda where there is a GPU, got {quote(request.device)}")
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    with console.status(f"Measuring {len(shapes)} shapes"):
        cost = in_fresh_processes(measure, shapes, request.device, request.repeats)
    print_cost(console, cost)
    if request.json_file is not None:
        write_json(request.json_file, {"machine": machine(), "cost": [dataclasses.asdict(row) for row in cost]})
        console.print(f"Written to {request.json_file}", soft_wrap=True)


def machine() -> dict[str, str | int]:
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def print_cost(console: Console, rows: Sequence[Measured]) -> None:
    table = Table(title="One curate call at default settings", title_justify="left")
    for name in ("groups x K", "pairs", "GeoAlign: s", "extra MB", "denoise: s", "extra MB"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [(row.seconds, row.extra_megabytes), (row.denoise_seconds, row.denoise_megabytes)]
        costs = [text for seconds, megabytes in cells for text in (decimals(seconds), decimals(megabytes, 0))]
        table.add_row(str(row.shape), f"{row.pairs:,}", *costs)
    console.print(table)
