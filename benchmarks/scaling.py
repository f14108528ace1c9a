"""A model of what curation costs on a CPU, by shape: what there is to do is counted, what it costs is fitted.

OMP_NUM_THREADS=1 python -m benchmarks.scaling --measure points.json --shape 1024x16x4096 [--shape ...]
python -m benchmarks.scaling points.json --hold-out 4096x64x4096

Each stage of a call is a sum of terms, counted from groups G, rollouts of each K and hidden size d, times constants
that are fitted to the stages of measured calls. What follows for several nodes is arithmetic on top of it. scaling.md
has the constants, and how far it was off on shapes that it was not fitted to.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from scipy.optimize import nnls

from benchmarks.curation import WHOLE, Shape, call_cost, in_fresh_processes, machine, planted
from benchmarks.stages import stages_timed
from geoalign import GeoAlign, ProjectorConfig
from geoalign.console.terminal import Console
from geoalign.errors import ConfigError, InputError
from geoalign.files.json_files import write_json
from geoalign.method.density import EXACT_SCORES, GRID_POINTS
from geoalign.method.distillation import AUTO_MIN_GROUPS, AUTO_PAIRS
from geoalign.method.scoring import JUDGED_PAIRS

_PROJECTOR = ProjectorConfig()


@dataclass(frozen=True)
class Work:
    """What one call at default settings, without the early stop and with continuous rewards, has to do."""

    numbers: float  # entries of the states, B x d
    distances: float  # entries that pass through the distance table, G x K^2 x d
    pairs: float  # G x K (K - 1) / 2
    first_layer: float  # multiplications of all states by the first layer, B x d x d'
    training: float  # multiplications and additions of all training steps
    kernels: float  # evaluations of the density's kernel
    rollouts: float  # B
    judged: float  # entries of the rows whose orientation is looked at, at most two for each of 8,192 pairs

    @classmethod
    def of(cls, shape: Shape) -> Work:
        rollouts = shape.groups * shape.size
        pairs = rollouts * (shape.size - 1) / 2
        width = min(_PROJECTOR.hidden_dim, shape.d)
        at = rollouts if rollouts <= EXACT_SCORES else GRID_POINTS
        return cls(
            numbers=rollouts * shape.d,
            distances=rollouts * shape.size * shape.d,
            pairs=pairs,
            first_layer=rollouts * shape.d * width,
            training=_PROJECTOR.steps * step_work(shape, *step_size(shape)),
            kernels=rollouts * at,
            rollouts=rollouts,
            judged=min(rollouts, 2 * JUDGED_PAIRS) * shape.d,
        )


def step_size(shape: Shape) -> tuple[float, float]:
    """Rows and pairs of one training step with `groups_per_step: auto`; a tenth of the pairs is held out."""
    per_group = shape.size * (shape.size - 1) / 2 * (1 - _PROJECTOR.holdout)
    groups = min(shape.groups, max(AUTO_MIN_GROUPS, -(-AUTO_PAIRS // per_group)))
    return groups * shape.size, min(groups * per_group, 2 * AUTO_PAIRS)


def step_work(shape: Shape, rows: float, pairs: float) -> float:
    """Multiplications and additions of one step: forward and backward, u and -u, layers of width d'.

    The first layer sees rows (no gradient goes on to the states), the middle one pairs; the last is a vector product.
    """
    width = min(_PROJECTOR.hidden_dim, shape.d)
    return 4 * rows * shape.d * width + 12 * pairs * width**2


def projector_bytes(d: int) -> int:
    """The projector's weights in float32."""
    width, out = min(_PROJECTOR.hidden_dim, d), min(_PROJECTOR.output_dim, d)
    sizes = [d] + [width] * (_PROJECTOR.layers - 1) + [out]
    return 4 * sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))


# Stage of a call -> the terms that its seconds are a sum of.
TERMS: dict[str, dict[str, Callable[[Work], float]]] = {
    "pairs": {
        "per number": lambda work: work.numbers,
        "per distance entry": lambda work: work.distances,
        "per pair": lambda work: work.pairs,
    },
    "training": {"once": lambda work: 1.0, "per operation": lambda work: work.training},
    "scoring": {
        "once": lambda work: 1.0,
        "per multiplication of the first layer": lambda work: work.first_layer,
        "per pair": lambda work: work.pairs,
    },
    "density": {"per kernel": lambda work: work.kernels},
    "decision and rest": {"per rollout": lambda work: work.rollouts, "per pair": lambda work: work.pairs},
}
# Besides these the sorted, centred copy of the states in float32, which is known and not fitted.
MEMORY: dict[str, Callable[[Work], float]] = {
    "once": lambda work: 1.0,
    "per judged number": lambda work: work.judged,
    "per pair": lambda work: work.pairs,
}


@dataclass(frozen=True)
class Point:
    """A measured call: its shape, the seconds of each stage, and its peak extra bytes."""

    shape: Shape
    stages: Mapping[str, float]
    extra_bytes: float

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())


@dataclass(frozen=True)
class CostModel:
    """Seconds of each stage and peak extra bytes, by shape."""

    constants: Mapping[str, Mapping[str, float]]
    memory: Mapping[str, float]

    def stages(self, shape: Shape) -> dict[str, float]:
        work = Work.of(shape)
        return {
            stage: sum(constant * TERMS[stage][name](work) for name, constant in terms.items())
            for stage, terms in self.constants.items()
        }

    def seconds(self, shape: Shape) -> float:
        return sum(self.stages(shape).values())

    def extra_bytes(self, shape: Shape) -> float:
        """Peak memory beyond the states that came in."""
        work = Work.of(shape)
        return _copy_bytes(work) + sum(constant * MEMORY[name](work) for name, constant in self.memory.items())


def measure(shape: Shape, device: str, repeats: int) -> dict[str, Any]:
    """A point: peak extra memory, and the CPU seconds of all threads together for each stage (medians).

    Other work on the same cores does not stretch them as it does seconds.
    """
    rollouts, spent = planted(shape, 0, device), []

    def curate() -> None:
        with stages_timed(torch.device(device), time.process_time) as stages:
            GeoAlign(WHOLE).curate(rollouts, generator=torch.Generator().manual_seed(0))
        spent.append(stages)

    _, extra = call_cost(curate, repeats, device)
    stages = {name: statistics.median(call[name] for call in spent) for name in spent[0]}
    return {"shape": asdict(shape), "stages": stages, "extra_megabytes": extra}


def read_points(files: Sequence[Path]) -> list[Point]:
    """The shapes of files that --measure wrote.

    Raises:
        InputError: a file is no such file.
    """
    points = []
    for file in files:
        try:
            for row in json.loads(file.read_text(encoding="utf-8"))["cost"]:
                points.append(_point(row))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"points: expected JSON of --measure, got {error!r} in {file}") from error
    return points


def _point(row: Mapping[str, object]) -> Point:
    shape, stages = row["shape"], row["stages"]
    if not isinstance(shape, dict) or not isinstance(stages, dict):
        raise TypeError("shape or stages is no object")
    joined = {name: float(stages[name]) for name in ("pairs", "training", "scoring", "density")}
    joined["decision and rest"] = float(stages["decision"]) + float(stages["rest"])
    return Point(Shape(**shape), joined, float(str(row["extra_megabytes"])) * 2**20)


def fit(points: Sequence[Point]) -> CostModel:
    """Constants of at least zero that make the relative errors over the points least, stage by stage.

    Raises:
        InputError: fewer points than a stage has terms.
    """
    most = max(len(terms) for terms in (*TERMS.values(), MEMORY))
    if len(points) < most:
        raise InputError(f"points: expected at least {most} to fit, got {len(points)}")
    return CostModel(
        constants={
            stage: _least_squares(terms, points, [point.stages[stage] for point in points])
            for stage, terms in TERMS.items()
        },
        memory=_least_squares(
            MEMORY,
            points,
            [point.extra_bytes for point in points],
            [_copy_bytes(Work.of(point.shape)) for point in points],
        ),
    )


def _copy_bytes(work: Work) -> float:
    return 4 * work.numbers


def _least_squares(
    terms: Mapping[str, Callable[[Work], float]],
    points: Sequence[Point],
    measured: Sequence[float],
    known: Sequence[float] | None = None,
) -> dict[str, float]:
    """Constants of the terms that, with what is known, come closest to what was measured, each error relative to it."""
    found = np.array(measured)
    left = np.ones(len(points)) if known is None else 1 - np.array(known) / found
    table = np.array([[term(Work.of(point.shape)) for term in terms.values()] for point in points]) / found[:, None]
    # Columns differ by many orders of magnitude: brought to one size, and the constants back.
    size = np.linalg.norm(table, axis=0)
    constants, _ = nnls(table / size, left)
    return dict(zip(terms, (float(value) for value in constants / size), strict=True))


LATENCY = 5e-5  # seconds that each message waits


@dataclass(frozen=True)
class Sharing:
    """One curation by N nodes, by arithmetic from the model and the speed of the network."""

    gather: float  # seconds until the states of all other nodes have come to one
    driver: float  # seconds of the whole call there
    scored_apart: float  # seconds where every node prepares and scores its own groups; one trains, on the groups drawn
    trained_apart: float  # seconds where the nodes also train together, each step's gradients summed over all
    gathered_bytes: float  # into the driver, before `driver`
    drawn_bytes: float  # into the driver, for `scored_apart`: states of the groups that training draws
    summed_bytes: float  # through each node's cable in each direction, for `trained_apart`


def sharing(
    model: CostModel, shape: Shape, nodes: int, *, bytes_per_second: float, every_group: bool = False
) -> Sharing:
    """What curation takes with N nodes that hold whole groups, evenly many, each as fast as the model's machine.

    All 50 steps. A sum over all nodes is taken to pass 2 (N - 1) / N of its bytes through every cable and to wait
    2 (N - 1) times for `LATENCY`; a broadcast to pass its bytes once.

    Args:
        every_group: each step takes all pairs of all groups, as in the `paper` preset; else `groups_per_step: auto`.
    """
    stages, rollouts = model.stages(shape), shape.groups * shape.size
    rows, _ = step_size(shape)
    if every_group:
        rows, pairs = rollouts, Work.of(shape).pairs * (1 - _PROJECTOR.holdout)
        training = model.constants["training"]
        work = _PROJECTOR.steps * step_work(shape, rows, pairs)
        stages["training"] = training["once"] + training["per operation"] * work
    away, weights = (nodes - 1) / nodes, projector_bytes(shape.d)
    gathered = 4.0 * rollouts * shape.d * away
    drawn = min(gathered, 4.0 * _PROJECTOR.steps * rows * shape.d * away)
    summed = _PROJECTOR.steps * 2 * away * weights
    # The prototype's share of each node comes in, scores and decisions of each rollout pass: little.
    little = 8.0 * rollouts + 4.0 * nodes * _PROJECTOR.output_dim
    apart = stages["density"] + (stages["pairs"] + stages["scoring"] + stages["decision and rest"]) / nodes
    waits = _PROJECTOR.steps * 2 * (nodes - 1) * LATENCY
    return Sharing(
        gather=gathered / bytes_per_second,
        driver=sum(stages.values()),
        scored_apart=apart + stages["training"] + (drawn + weights + little) / bytes_per_second,
        trained_apart=apart + stages["training"] / nodes + (summed + little) / bytes_per_second + waits,
        gathered_bytes=gathered,
        drawn_bytes=drawn,
        summed_bytes=summed,
    )


PLANNED = ("96x16x2048", "96x16x4096", "512x16x4096", "1024x64x4096", "4096x64x4096")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path, nargs="*", metavar="FILE", help="JSON of --measure")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure the shapes, and write them here")
    parser.add_argument("--hold-out", action="append", default=[], metavar="SHAPE", help="leave it out of the fit")
    parser.add_argument("--shape", action="append", metavar="SHAPE", help="a batch to measure or to plan for")
    parser.add_argument("--nodes", type=int, nargs="+", default=[8, 64], metavar="N")
    parser.add_argument("--gigabits", type=float, default=100.0, metavar="N", help="speed of a node's network (100)")
    options = parser.parse_args(arguments)
    shapes = [Shape.parse(text) for text in options.shape or PLANNED]
    if options.measure is not None:
        write_json(options.measure, {"machine": machine(), "cost": in_fresh_processes(measure, shapes, "cpu", 1)})
        return
    points = read_points(options.points)
    held = {Shape.parse(text) for text in options.hold_out}
    missing = held - {point.shape for point in points}
    if missing:
        raise ConfigError(f"--hold-out: expected measured shapes, got {', '.join(map(str, missing))}")
    model = fit([point for point in points if point.shape not in held])
    console = Console(width=160)
    print_constants(console, model)
    print_errors(console, model, points, held)
    for every_group in (False, True):
        print_sharing(console, model, shapes, options, every_group)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right")
    return table


def print_constants(console: Console, model: CostModel) -> None:
    table = _table("Constants (seconds, and bytes of memory)", "stage", "term", "constant")
    for stage, terms in (*model.constants.items(), ("memory", model.memory)):
        for term, constant in terms.items():
            table.add_row(stage, term, f"{constant:.3g}")
    console.print(table)


def print_errors(console: Console, model: CostModel, points: Sequence[Point], held: set[Shape]) -> None:
    columns = ("shape", "fitted", "seconds", "model", "off", "extra MB", "model", "off")
    whole = _table("Measured, and by the model", *columns)
    stages = _table("Seconds of each stage, and by the model", "shape", *points[0].stages)
    for point in points:
        seconds, extra = model.seconds(point.shape), model.extra_bytes(point.shape)
        spent = (f"{point.seconds:.2f}", f"{seconds:.2f}", f"{seconds / point.seconds - 1:+.0%}")
        sizes = [f"{size / 1e6:,.0f}" for size in (point.extra_bytes, extra)]
        off = f"{extra / point.extra_bytes - 1:+.0%}"
        whole.add_row(str(point.shape), "no" if point.shape in held else "yes", *spent, *sizes, off)
        found = model.stages(point.shape)
        stages.add_row(str(point.shape), *(f"{one:.2f} ({found[stage]:.2f})" for stage, one in point.stages.items()))
    console.print(whole)
    console.print(stages)


def print_sharing(
    console: Console, model: CostModel, shapes: Sequence[Shape], options: argparse.Namespace, every_group: bool
) -> None:
    steps = "all groups in every step" if every_group else "groups_per_step: auto"
    title = f"By arithmetic: {steps}, all 50 steps, {options.gigabits:g} Gbit/s, nodes as fast as this machine"
    moved = ("gathered MB", "drawn MB", "summed MB", "gather s", "driver s", "scored apart s", "trained apart s")
    table = _table(title, "batch", "nodes", *moved)
    for shape, count in product(shapes, options.nodes):
        one = sharing(model, shape, count, bytes_per_second=options.gigabits * 1e9 / 8, every_group=every_group)
        sizes = [f"{size / 1e6:,.0f}" for size in (one.gathered_bytes, one.drawn_bytes, one.summed_bytes)]
        seconds = [f"{value:,.2f}" for value in (one.gather, one.driver, one.scored_apart, one.trained_apart)]
        table.add_row(str(shape), str(count), *sizes, *seconds)
    console.print(table)


if __name__ == "__main__":
    main()
