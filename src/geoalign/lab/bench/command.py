"""`geoalign bench`: the measurements of curation, in tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from geoalign.lab.bench.curation import Shape, measure_shapes
from geoalign.lab.bench.detection import WIDTHS, measure_detection, saved_batches, synthetic_batches
from geoalign.lab.bench.detection_report import detection_json, print_detection
from geoalign.lab.bench.quality import Quality, stepping_quality
from geoalign.lab.bench.report import as_json, machine, print_cost, print_quality
from geoalign.lab.store.files import named
from geoalign.lab.terminal import Console

DEFAULT_SHAPES = ("96x8x2048", "96x16x2048")
# The quality of stepping is compared where stepping over all groups is still quick.
QUALITY_SHAPE = Shape(96, 8, 2048)
QUALITY_SEEDS = (0, 1, 2)


def bench(
    console: Console,
    shapes: Sequence[str] | None,
    *,
    repeats: int,
    naive: bool,
    quality: bool,
    device: str,
    json_file: Path | None,
) -> None:
    """Measures each shape in a process of its own and prints the results.

    Raises:
        ConfigError: a shape is not written as GROUPSxKxHIDDEN.
    """
    wanted = [Shape.parse(text) for text in shapes or DEFAULT_SHAPES]
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    with console.status(f"Measuring {len(wanted)} shapes"):
        cost = measure_shapes(wanted, device=device, repeats=repeats, naive=naive)
    print_cost(console, cost)
    compared: list[Quality] = []
    if quality:
        with console.status("Comparing ways of stepping"):
            compared = stepping_quality(QUALITY_SHAPE, seeds=QUALITY_SEEDS, states=("isotropic", "compressible"))
        print_quality(console, compared)
    if json_file is not None:
        with named(json_file):
            json_file.write_text(as_json(cost, compared), encoding="utf-8")
        console.print(f"Written to {json_file}", soft_wrap=True)


def bench_detection(
    console: Console, files: Sequence[Path], *, seeds: int, corruption: float, json_file: Path | None
) -> None:
    """Measures how well every score and control finds corrupted rewards, on saved batches or on synthetic ones.

    Args:
        files: batches written by `geoalign.lab.bench.batches.save_batch`; none: synthetic batches of 96 x 8.
        seeds: synthetic batches of each kind.
        corruption: share of the synthetic rewards that is corrupted.
        json_file: also write the figures here.

    Raises:
        InputError: a file is missing or broken.
    """
    shape = QUALITY_SHAPE
    kinds = (
        saved_batches(files)
        if files
        else synthetic_batches(shape.groups, shape.size, widths=WIDTHS, corruption=corruption, seeds=range(seeds))
    )
    with console.status("Scoring batches") as status:
        rows = measure_detection(kinds, lambda name: status.update(f"Scoring: {name}"))
    print_detection(console, rows)
    if json_file is not None:
        with named(json_file):
            json_file.write_text(detection_json(rows), encoding="utf-8")
        console.print(f"Written to {json_file}", soft_wrap=True)
