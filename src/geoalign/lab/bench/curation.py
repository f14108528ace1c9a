"""Time and peak extra memory of a whole `curate` call, by shape, beside the naive form of the same mathematics."""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

import torch

from geoalign.curators.denoise import Denoise
from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.errors import ConfigError
from geoalign.lab.bench.memory import peak_bytes, reset_peak
from geoalign.lab.bench.naive import naive_distil, naive_pairs, naive_scores
from geoalign.lab.bench.stages import stages_timed
from geoalign.lab.bench.synthetic import synthetic_rollouts
from geoalign.method.projector import Projector, ProjectorConfig, new_probe
from geoalign.shown import shown
from geoalign.types import Rollouts

# 4 GB of float32; the naive form needs several times that.
MOST_NUMBERS = 4_000_000_000
DENOISE_WARM_UP = 2


@dataclass(frozen=True)
class Shape:
    """Groups x rollouts of each x hidden size."""

    groups: int
    size: int
    d: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Reads "96x16x2048".

        Raises:
            ConfigError: the text is not three positive numbers, or more hidden states or pairs than `MOST_NUMBERS`.
        """
        parts = text.lower().split("x")
        if len(parts) != 3 or not all(re.fullmatch("0*[1-9][0-9]{0,8}", part) for part in parts):
            raise ConfigError(f"--shape: expected GROUPSxSIZExHIDDEN such as 96x16x2048, got {shown(text)}")
        shape = cls(*(int(part) for part in parts))
        if max(shape.groups * shape.size * max(shape.d, shape.size), shape.d**2) > MOST_NUMBERS:
            raise ConfigError(
                f"--shape: expected at most {MOST_NUMBERS:,} numbers in the hidden states, pairs or a layer of the "
                f"projector, got {shown(text)}"
            )
        return shape

    def __str__(self) -> str:
        return f"{self.groups} x {self.size}, d = {self.d}"


@dataclass(frozen=True)
class Measured:
    """One shape: the whole call at default settings, and both forms at equal widths, pairs and steps.

    Times are medians of `repeats` calls, memory the peak above what the process held before the call (NaN where the
    system does not say); `naive_seconds` and `equal_seconds` are NaN where the comparison was left out. `stages` are
    CPU seconds of all threads together for each stage of the whole call, medians: other work on the same cores does not
    stretch them as it does seconds. Empty on a GPU, which would be waited for after each stage. `denoise_seconds` and
    `denoise_megabytes` are those of `Denoise` at its defaults, of a call after `DENOISE_WARM_UP` others: the first one
    predicts by folds and keeps nothing from before.
    """

    shape: Shape
    pairs: int
    seconds: float
    extra_megabytes: float
    equal_seconds: float
    equal_megabytes: float
    naive_seconds: float
    naive_megabytes: float
    equal_steps: int
    stages: dict[str, float] = field(default_factory=dict)
    denoise_seconds: float = math.nan
    denoise_megabytes: float = math.nan


def measure(shape: Shape, *, device: str, repeats: int, naive: bool, equal_steps: int) -> Measured:
    """Measures one shape in this process; `measure_shapes` gives each shape a process of its own."""
    rollouts = _batch(shape, 0, device)
    # Never stop early: the figure is that of all 50 steps.
    default = GeoAlignConfig(projector=ProjectorConfig(target_accuracy=None))
    pairs = 0

    def curate(config: GeoAlignConfig) -> None:
        nonlocal pairs
        curation = GeoAlign(config).curate(rollouts, generator=torch.Generator().manual_seed(0))
        pairs = int(curation.metrics["pairs"])

    stages: list[dict[str, float]] = []

    def curate_in_stages() -> None:
        with stages_timed(torch.device(device), time.process_time) as spent:
            curate(default)
        stages.append(spent)

    seconds, extra = _cost(curate_in_stages if device == "cpu" else lambda: curate(default), repeats, device)
    medians = {name: statistics.median(call[name] for call in stages) for name in (stages[0] if stages else {})}
    nothing = (float("nan"), float("nan"))
    equal, obvious = nothing, nothing
    if naive:
        same = ProjectorConfig(target_accuracy=None, groups_per_step=None, holdout=0, steps=equal_steps)
        equal = _cost(lambda: curate(GeoAlignConfig(projector=same)), repeats, device)
        obvious = _cost(lambda: _naive(rollouts, equal_steps), repeats, device)
    denoised = _denoise_cost(shape, repeats, device)
    return Measured(shape, pairs, seconds, extra, *equal, *obvious, equal_steps, medians, *denoised)


def measure_shapes(
    shapes: Sequence[Shape], *, device: str = "cpu", repeats: int = 3, naive: bool = True, equal_steps: int = 10
) -> list[Measured]:
    """Measures each shape in a fresh process, so that the memory of one does not hide that of the next."""
    results = []
    for shape in shapes:
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            job = pool.submit(measure, shape, device=device, repeats=repeats, naive=naive, equal_steps=equal_steps)
            results.append(job.result())
    return results


def _naive(rollouts: Rollouts, steps: int) -> None:
    assert rollouts.hidden is not None
    generator = torch.Generator().manual_seed(0)
    config = ProjectorConfig()
    pairs = naive_pairs(rollouts)
    projector = Projector(
        rollouts.hidden.shape[1],
        layers=config.layers,
        hidden_dim=config.hidden_dim,
        output_dim=config.output_dim,
        generator=generator,
    ).to(rollouts.hidden.device)
    probe = new_probe(projector.output_dim, generator).to(rollouts.hidden.device)
    naive_distil(projector, probe, pairs.displacement, steps=steps, learning_rate=config.learning_rate)
    naive_scores(projector, pairs, len(rollouts))


def _denoise_cost(shape: Shape, repeats: int, device: str) -> tuple[float, float]:
    """The cost of `Denoise`, a new batch of the same planted direction at each call."""
    curator = Denoise()
    batches = [_batch(shape, seed, device) for seed in range(DENOISE_WARM_UP + repeats)]
    for batch in batches[:DENOISE_WARM_UP]:
        curator.curate(batch)
    left = iter(batches[DENOISE_WARM_UP:])
    return _cost(lambda: curator.curate(next(left)), repeats, device)


def _batch(shape: Shape, seed: int, device: str) -> Rollouts:
    rollouts = synthetic_rollouts(shape.groups, shape.size, shape.d, seed=seed).rollouts
    assert rollouts.hidden is not None
    return Rollouts(rewards=rollouts.rewards, groups=rollouts.groups, hidden=rollouts.hidden.to(device))


def _cost(call: Callable[[], object], repeats: int, device: str) -> tuple[float, float]:
    """Median seconds and peak extra megabytes of the calls."""
    _reset_peak(device)
    before = _peak(device)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[len(seconds) // 2], (_peak(device) - before) / 2**20


def _reset_peak(device: str) -> None:
    if device == "cpu":
        reset_peak()
    else:
        torch.cuda.reset_peak_memory_stats()


def _peak(device: str) -> float:
    return peak_bytes() if device == "cpu" else float(torch.cuda.max_memory_allocated())
