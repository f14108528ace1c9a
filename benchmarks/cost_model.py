"""A model of what curation costs on a CPU, by shape: what there is to do is counted, what it costs is fitted.

Each stage of a call is a sum of terms, counted from groups G, rollouts of each K and hidden size d, times constants
that are fitted to the stages of measured calls (`geoalign bench --json`). What follows for several nodes is arithmetic
on top of it. benchmarks/scaling.md has the constants, and how far it was off on shapes that it was not fitted to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from geoalign.errors import InputError
from geoalign.lab.bench.curation import Shape
from geoalign.method.density import EXACT_SCORES, GRID_POINTS
from geoalign.method.distillation import AUTO_MIN_GROUPS, AUTO_PAIRS
from geoalign.method.projector import ProjectorConfig
from geoalign.method.scoring import JUDGED_PAIRS

_PROJECTOR = ProjectorConfig()


@dataclass(frozen=True)
class Work:
    """What one call at default settings, without the early stop and with continuous rewards, has to do.

    Attributes:
        numbers: entries of the states, B x d.
        distances: entries that pass through the distance table, G x K^2 x d.
        pairs: G x K (K - 1) / 2.
        first_layer: multiplications of all states by the first layer, B x d x d'.
        training: multiplications and additions of all training steps.
        kernels: evaluations of the density's kernel.
        rollouts: B.
        judged: entries of the rows whose orientation is looked at, at most two for each of 8,192 pairs.
    """

    numbers: float
    distances: float
    pairs: float
    first_layer: float
    training: float
    kernels: float
    rollouts: float
    judged: float

    @classmethod
    def of(cls, shape: Shape) -> Work:
        """Counted from a shape."""
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


# Stage of `geoalign bench` -> the terms that its seconds are a sum of.
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
        """Of the whole call."""
        return sum(self.stages.values())


@dataclass(frozen=True)
class CostModel:
    """Seconds of each stage and peak extra bytes, by shape."""

    constants: Mapping[str, Mapping[str, float]]
    memory: Mapping[str, float]

    def stages(self, shape: Shape) -> dict[str, float]:
        """Seconds of each stage."""
        work = Work.of(shape)
        return {
            stage: sum(constant * TERMS[stage][name](work) for name, constant in terms.items())
            for stage, terms in self.constants.items()
        }

    def seconds(self, shape: Shape) -> float:
        """Seconds of a whole call."""
        return sum(self.stages(shape).values())

    def extra_bytes(self, shape: Shape) -> float:
        """Peak memory beyond the states that came in."""
        work = Work.of(shape)
        return _copy_bytes(work) + sum(constant * MEMORY[name](work) for name, constant in self.memory.items())


def read_points(files: Sequence[Path]) -> list[Point]:
    """The shapes of files that `geoalign bench --json` wrote on a CPU.

    Raises:
        InputError: a file is no such file.
    """
    points = []
    for file in files:
        try:
            for row in json.loads(file.read_text(encoding="utf-8"))["cost"]:
                points.append(_point(row))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"points: expected JSON of `geoalign bench --device cpu`, got {error!r} in {file}"
            ) from error
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


@dataclass(frozen=True)
class Sharing:
    """One curation by N nodes, by arithmetic from the model and the speed of the network.

    Attributes:
        gather: seconds until the states of all other nodes have come to one.
        driver: seconds of the whole call there.
        scored_apart: seconds where every node prepares and scores its own groups; one trains, on the groups drawn.
        trained_apart: seconds where the nodes also train together, each step's gradients summed over all.
        gathered_bytes: into the driver, before `driver`.
        drawn_bytes: into the driver, for `scored_apart`: states of the groups that training draws.
        summed_bytes: through each node's cable in each direction, for `trained_apart`.
    """

    gather: float
    driver: float
    scored_apart: float
    trained_apart: float
    gathered_bytes: float
    drawn_bytes: float
    summed_bytes: float


def sharing(
    model: CostModel,
    shape: Shape,
    nodes: int,
    *,
    bytes_per_second: float,
    every_group: bool = False,
    latency: float = 5e-5,
) -> Sharing:
    """What curation takes with N nodes that hold whole groups, evenly many, each as fast as the model's machine.

    All 50 steps. A sum over all nodes is taken to pass 2 (N - 1) / N of its bytes through every cable and to wait
    2 (N - 1) times for `latency`; a broadcast to pass its bytes once.

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
    waits = _PROJECTOR.steps * 2 * (nodes - 1) * latency
    return Sharing(
        gather=gathered / bytes_per_second,
        driver=sum(stages.values()),
        scored_apart=apart + stages["training"] + (drawn + weights + little) / bytes_per_second,
        trained_apart=apart + stages["training"] / nodes + (summed + little) / bytes_per_second + waits,
        gathered_bytes=gathered,
        drawn_bytes=drawn,
        summed_bytes=summed,
    )
