"""Fits the cost model of curation to measured calls, and says what it gives for other batches and many nodes.

geoalign bench --repeats 1 --no-naive --no-quality --shape 96x16x2048 --shape ... --json points.json
python -m benchmarks.scaling points.json --hold-out 4096x64x4096
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.cost_model import CostModel, Point, fit, read_points, sharing
from geoalign.errors import ConfigError
from geoalign.lab.bench.curation import Shape
from geoalign.lab.terminal import Console

PLANNED = ("96x16x2048", "96x16x4096", "512x16x4096", "1024x64x4096", "4096x64x4096")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path, nargs="+", metavar="FILE", help="JSON of `geoalign bench`")
    parser.add_argument("--hold-out", action="append", default=[], metavar="SHAPE", help="leave it out of the fit")
    parser.add_argument("--shape", action="append", metavar="SHAPE", help="a batch to plan for; may be repeated")
    parser.add_argument("--nodes", type=int, nargs="+", default=[8, 64], metavar="N")
    parser.add_argument("--gigabits", type=float, default=100.0, metavar="N", help="speed of a node's network (100)")
    options = parser.parse_args(arguments)
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
        shapes = [Shape.parse(text) for text in options.shape or PLANNED]
        print_sharing(console, model, shapes, options.nodes, options.gigabits, every_group)


def print_constants(console: Console, model: CostModel) -> None:
    table = Table(title="Constants (seconds, and bytes of memory)", title_justify="left")
    for name in ("stage", "term", "constant"):
        table.add_column(name)
    for stage, terms in (*model.constants.items(), ("memory", model.memory)):
        for term, constant in terms.items():
            table.add_row(stage, term, f"{constant:.3g}")
    console.print(table)


def print_errors(console: Console, model: CostModel, points: Sequence[Point], held: set[Shape]) -> None:
    whole = Table(title="Measured, and by the model", title_justify="left")
    for name in ("shape", "fitted", "seconds", "model", "off", "extra MB", "model", "off"):
        whole.add_column(name, justify="right")
    stages = Table(title="Seconds of each stage, and by the model", title_justify="left")
    for name in ("shape", *points[0].stages):
        stages.add_column(name, justify="right")
    for point in points:
        seconds, extra = model.seconds(point.shape), model.extra_bytes(point.shape)
        whole.add_row(
            str(point.shape),
            "no" if point.shape in held else "yes",
            f"{point.seconds:.2f}",
            f"{seconds:.2f}",
            f"{seconds / point.seconds - 1:+.0%}",
            f"{point.extra_bytes / 1e6:,.0f}",
            f"{extra / 1e6:,.0f}",
            f"{extra / point.extra_bytes - 1:+.0%}",
        )
        found = model.stages(point.shape)
        stages.add_row(str(point.shape), *(f"{one:.2f} ({found[stage]:.2f})" for stage, one in point.stages.items()))
    console.print(whole)
    console.print(stages)


def print_sharing(
    console: Console,
    model: CostModel,
    shapes: Sequence[Shape],
    nodes: Sequence[int],
    gigabits: float,
    every_group: bool,
) -> None:
    steps = "all groups in every step" if every_group else "groups_per_step: auto"
    title = f"By arithmetic: {steps}, all 50 steps, {gigabits:g} Gbit/s, nodes as fast as this machine"
    table = Table(title=title, title_justify="left")
    for name in ("batch", "nodes", "gathered MB", "gather s", "driver s", "drawn MB", "scored apart s"):
        table.add_column(name, justify="right")
    for name in ("summed MB", "trained apart s"):
        table.add_column(name, justify="right")
    for shape in shapes:
        for count in nodes:
            one = sharing(model, shape, count, bytes_per_second=gigabits * 1e9 / 8, every_group=every_group)
            sizes = [f"{size / 1e6:,.0f}" for size in (one.gathered_bytes, one.drawn_bytes, one.summed_bytes)]
            seconds = [f"{value:,.2f}" for value in (one.gather, one.driver, one.scored_apart, one.trained_apart)]
            table.add_row(
                str(shape), str(count), sizes[0], seconds[0], seconds[1], sizes[1], seconds[2], sizes[2], seconds[3]
            )
    console.print(table)


if __name__ == "__main__":
    main()
