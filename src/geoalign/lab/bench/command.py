"""`geoalign bench`: the measurements of curation, in tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from geoalign.lab.bench.batches import PlantedBatch
from geoalign.lab.bench.curation import Shape, measure_shapes
from geoalign.lab.bench.curators import WARM_UP, measure_curators, parse_curators
from geoalign.lab.bench.detection import WIDTHS, measure_detection, saved_batches, synthetic_batches
from geoalign.lab.bench.detection_report import detection_json, print_curators, print_detection
from geoalign.lab.bench.quality import Quality, stepping_quality
from geoalign.lab.bench.report import as_json, machine, print_cost, print_quality
from geoalign.lab.config.requests import BenchRequest
from geoalign.lab.store.files import named
from geoalign.lab.terminal import Console

DEFAULT_SHAPES = ("96x8x2048", "96x16x2048")
# The quality of stepping is compared where stepping over all groups is still quick.
QUALITY_SHAPE = Shape(96, 8, 2048)
QUALITY_SEEDS = (0, 1, 2)
# Share of identical responses, at the smaller width, besides batches without any.
REPEATED = 0.3


def bench(request: BenchRequest, console: Console) -> None:
    """Measures each shape in a process of its own and prints the figures.

    Raises:
        ConfigError: a shape is not written as GROUPSxKxHIDDEN.
    """
    wanted = [Shape.parse(text) for text in request.shapes or DEFAULT_SHAPES]
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    with console.status(f"Measuring {len(wanted)} shapes"):
        cost = measure_shapes(wanted, device=request.device, repeats=request.repeats, naive=request.naive)
    print_cost(console, cost)
    compared: list[Quality] = []
    if request.quality:
        with console.status("Comparing ways of stepping"):
            compared = stepping_quality(QUALITY_SHAPE, seeds=QUALITY_SEEDS, states=("isotropic", "compressible"))
        print_quality(console, compared)
    _write(request.json_file, as_json(cost, compared), console)


def bench_detection(request: BenchRequest, console: Console) -> None:
    """Measures how well every score and control finds corrupted rewards, on batches written by
    `geoalign.lab.bench.batches.save_batch`, or without any on synthetic ones of 96 x 8; and how close the advantages
    of curators come to those of the true rewards, where these are known.

    Raises:
        InputError: a file is missing or broken, or lacks what a curator requires.
        ConfigError: an unknown curator, or settings that are not its own.
    """
    shape = QUALITY_SHAPE
    settings = parse_curators(request.curators)

    def synthetic(seeds: int, **more: Any) -> Iterator[tuple[str, list[PlantedBatch]]]:
        values = {"widths": WIDTHS, "corruption": request.corruption, "seeds": range(seeds), **more}
        return synthetic_batches(shape.groups, shape.size, **values)

    def saved() -> Iterator[tuple[str, list[PlantedBatch]]]:
        return saved_batches(request.batches)

    with console.status("Scoring batches") as status:
        rows = measure_detection(
            saved() if request.batches else synthetic(request.seeds), lambda name: status.update(f"Scoring: {name}")
        )
    print_detection(console, rows)
    with console.status("Curating batches") as status:
        seeds = WARM_UP + request.seeds
        repeated = synthetic(seeds, widths=WIDTHS[:1], repeated=REPEATED)
        curated = measure_curators(
            saved() if request.batches else chain(synthetic(seeds), repeated),
            settings,
            lambda name: status.update(f"Curating: {name}"),
        )
    print_curators(console, curated)
    _write(request.json_file, detection_json(rows, curated), console)


def _write(file: Path | None, figures: str, console: Console) -> None:
    if file is not None:
        with named(file):
            file.write_text(figures, encoding="utf-8")
        console.print(f"Written to {file}", soft_wrap=True)
