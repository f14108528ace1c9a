"""`geoalign bench`: what curation costs here, in a table and as JSON."""

from __future__ import annotations

from geoalign.lab.bench.curation import Shape, in_fresh_processes, measure
from geoalign.lab.bench.report import as_json, machine, print_cost
from geoalign.lab.config.requests import BenchRequest
from geoalign.lab.store.files import named
from geoalign.lab.terminal import Console

DEFAULT_SHAPES = ("96x8x2048", "96x16x2048")


def bench(request: BenchRequest, console: Console) -> None:
    """Measures each shape in a process of its own and prints the figures.

    Raises:
        ConfigError: a shape is not written as GROUPSxKxHIDDEN.
    """
    shapes = [Shape.parse(text) for text in request.shapes or DEFAULT_SHAPES]
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    with console.status(f"Measuring {len(shapes)} shapes"):
        cost = in_fresh_processes(measure, shapes, request.device, request.repeats)
    print_cost(console, cost)
    if request.json_file is not None:
        with named(request.json_file):
            request.json_file.write_text(as_json(cost), encoding="utf-8")
        console.print(f"Written to {request.json_file}", soft_wrap=True)
