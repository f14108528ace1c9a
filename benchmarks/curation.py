"""Time and peak extra memory of a whole `curate` call on this machine, by shape, as a table and as JSON.

python -m benchmarks.curation [--shape GROUPSxKxHIDDEN ...] [--repeats 3] [--device cuda] [--json FILE]

Measured are `GeoAlign` at its defaults without early stop and `Denoise` at its defaults. It needs no extra but `cli`.
"""

from __future__ import annotations

import argparse
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
from geoalign.method.projector import ProjectorConfig
from geoalign.testing.synthetic import synthetic_rollouts
from geoalign.text import quote
from geoalign.types import Rollouts

DEFAULT_SHAPES = ("96x8x2048", "96x16x2048")
DENOISE_WARM_UP = 2
# All 50 steps: when training stops early depends on the batch.
WHOLE = GeoAlignConfig(projector=ProjectorConfig(target_accuracy=None))
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Shape:
    """A batch of `groups` groups of `size` rollouts, whose hidden states have `d` coordinates."""

    groups: int
    size: int
    d: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Reads "96x16x2048"; ConfigError where the text is not three positive numbers."""
        match = re.fullmatch("0*([1-9][0-9]{0,8})x0*([1-9][0-9]{0,8})x0*([1-9][0-9]{0,8})", text.lower())
        if match is None:
            raise ConfigError(f"--shape: expected GROUPSxKxHIDDEN such as 96x16x2048, got {quote(text)}")
        return cls(groups=int(match[1]), size=int(match[2]), d=int(match[3]))

    def __str__(self) -> str:
        return f"{self.groups} x {self.size}, d = {self.d}"


@dataclass(frozen=True)
class Cost:
    """What the calls for one shape cost.

    Attributes:
        pairs: the pairs that `GeoAlign` compares.
        seconds, denoise_seconds: medians over the calls of `GeoAlign` and of `Denoise`.
        extra_megabytes, denoise_megabytes: the peak above what the process held before the calls; NaN where unknown.
    """

    shape: Shape
    pairs: int
    seconds: float
    extra_megabytes: float
    denoise_seconds: float
    denoise_megabytes: float


def measure(shape: Shape, device: str, repeats: int) -> Cost:
    """The cost of `repeats` calls of each curator; `Denoise` first sees `DENOISE_WARM_UP` batches that do not count."""
    rollouts = planted(shape, 0, device)
    pairs = 0

    def geoalign() -> None:
        nonlocal pairs
        curation = GeoAlign(WHOLE).curate(rollouts, generator=torch.Generator().manual_seed(0))
        pairs = int(curation.metrics["pairs"])

    seconds, extra_megabytes = call_cost(geoalign, repeats, device)

    curator = Denoise()
    # A new batch of the same planted direction at each call.
    batches = [planted(shape, seed, device) for seed in range(DENOISE_WARM_UP + repeats)]
    for batch in batches[:DENOISE_WARM_UP]:
        curator.curate(batch)
    remaining = iter(batches[DENOISE_WARM_UP:])
    denoise_seconds, denoise_megabytes = call_cost(lambda: curator.curate(next(remaining)), repeats, device)

    return Cost(
        shape=shape,
        pairs=pairs,
        seconds=seconds,
        extra_megabytes=extra_megabytes,
        denoise_seconds=denoise_seconds,
        denoise_megabytes=denoise_megabytes,
    )


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
    """Synthetic rollouts of a shape, with the fields that an engine gives and no others."""
    synthetic = synthetic_rollouts(shape.groups, shape.size, shape.d, seed=seed).rollouts
    assert synthetic.hidden is not None
    return Rollouts(rewards=synthetic.rewards, groups=synthetic.groups, hidden=synthetic.hidden.to(device))


def call_cost(call: Callable[[], object], repeats: int, device: str) -> tuple[float, float]:
    """The median seconds of the calls, and their peak memory in MiB above what was held before."""
    on_cpu = device == "cpu"
    if on_cpu:
        reset_peak()
    else:
        torch.cuda.reset_peak_memory_stats()
    before = _peak(on_cpu)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        if not on_cpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    extra = _peak(on_cpu) - before
    return statistics.median(seconds), extra / 2**20


def _peak(on_cpu: bool) -> float:
    """The high-water mark of memory in bytes, of the process or of the GPU."""
    return peak_bytes() if on_cpu else float(torch.cuda.max_memory_allocated())


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


def machine() -> dict[str, str | int]:
    """What a measurement ran on: processor, threads, and the versions of torch and Python."""
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def print_costs(console: Console, costs: Sequence[Cost]) -> None:
    table = Table(title="One curate call at default settings", title_justify="left")
    for name in ("groups x K", "pairs", "GeoAlign: s", "extra MB", "denoise: s", "extra MB"):
        table.add_column(name, justify="right")
    for cost in costs:
        table.add_row(
            str(cost.shape),
            f"{cost.pairs:,}",
            decimals(cost.seconds),
            decimals(cost.extra_megabytes, 0),
            decimals(cost.denoise_seconds),
            decimals(cost.denoise_megabytes, 0),
        )
    console.print(table)


def main(arguments: Sequence[str] | None = None, *, console: Console | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", metavar="GROUPSxKxHIDDEN", help="a shape; may be repeated")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="calls per figure; the median is shown (3)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="where the hidden states are (cpu)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args(arguments)
    shapes = [Shape.parse(text) for text in options.shape or DEFAULT_SHAPES]
    console = console or Console()
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    with console.status(f"Measuring {len(shapes)} shapes"):
        costs = in_fresh_processes(measure, shapes, options.device, options.repeats)
    print_costs(console, costs)
    if options.json is not None:
        write_json(options.json, {"machine": machine(), "cost": [dataclasses.asdict(cost) for cost in costs]})
        console.print(f"Written to {options.json}", soft_wrap=True)


if __name__ == "__main__":
    main()
