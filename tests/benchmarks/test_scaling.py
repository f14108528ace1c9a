"""The cost model: what is counted by hand, what a fit recovers, what it says of nodes, and the page's own numbers."""

import json
import re
from pathlib import Path

import pytest
from benchmarks.curation import Shape
from benchmarks.scaling import MEMORY, TERMS, CostModel, Point, Work, fit, read_points

from benchmarks import scaling

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks" / "scaling.md"
SHAPES = [Shape(96, 8, 2048), Shape(96, 16, 4096), Shape(512, 16, 1024), Shape(96, 64, 2048), Shape(1024, 32, 4096)]


def test_work_by_hand():
    work = Work.of(Shape(10, 4, 1000))
    assert work.rollouts == 40
    assert work.pairs == 10 * 6
    assert work.numbers == 40 * 1000
    assert work.distances == 10 * 4 * 4 * 1000
    assert work.first_layer == 40 * 1000 * 512
    assert work.kernels == 40 * 40
    assert work.judged == 40 * 1000
    assert Work.of(Shape(4096, 64, 10)).judged == 16_384 * 10
    # Beyond 4,096 scores the density stands on a grid of 2,048.
    assert Work.of(Shape(1000, 8, 16)).kernels == 8000 * 2048


def points_of(model):
    return [Point(shape, model.stages(shape), model.extra_bytes(shape)) for shape in SHAPES]


def known_model():
    constants = {
        "pairs": {"per number": 2e-9, "per distance entry": 4e-10, "per pair": 3e-7},
        "training": {"once": 0.1, "per operation": 1e-11},
        "scoring": {"once": 0.2, "per multiplication of the first layer": 2e-11, "per pair": 1e-5},
        "density": {"per kernel": 2e-8},
        "decision and rest": {"per rollout": 1e-6, "per pair": 1e-8},
    }
    return CostModel(constants, {"once": 1e8, "per judged number": 8.0, "per pair": 150.0})


def test_a_fit_finds_the_constants_again():
    found = fit(points_of(known_model()))
    for stage, terms in known_model().constants.items():
        assert found.constants[stage] == pytest.approx(terms, rel=1e-6)
    assert found.memory == pytest.approx(known_model().memory, rel=1e-6)
    assert found.constants.keys() == TERMS.keys()
    assert found.memory.keys() == MEMORY.keys()


def test_points_of_a_real_call(tmp_path, monkeypatch):
    file = tmp_path / "bench.json"
    here = lambda measured, shapes, device, repeats: [measured(shape, device, repeats) for shape in shapes]  # noqa: E731
    monkeypatch.setattr(scaling, "in_fresh_processes", here)
    scaling.main(["--measure", str(file), "--shape", "8x4x32"])
    (point,) = read_points([file])
    assert point.shape == Shape(8, 4, 32)
    assert point.stages.keys() == TERMS.keys()
    assert all(seconds > 0 for seconds in point.stages.values())
    (row,) = json.loads(file.read_text())["cost"]
    assert point.seconds == pytest.approx(sum(row["stages"].values()))
    assert point.extra_bytes == row["extra_megabytes"] * 2**20


def test_the_page_has_the_fit_of_its_own_points():
    page = PAGE.read_text(encoding="utf-8")
    held = {Shape.parse(text) for text in re.findall(r"--hold-out (\S+)", page)}
    points = read_points([PAGE.with_suffix(".json")])
    assert held < {point.shape for point in points}
    model = fit([point for point in points if point.shape not in held])
    for point in points:
        line = f"| {point.shape.groups:,} x {point.shape.size}, {point.shape.d} | "
        line += "**no**" if point.shape in held else "yes"
        seconds = model.seconds(point.shape)
        line += f" | {point.seconds:.2f} | {seconds:.2f} | {seconds / point.seconds - 1:+.0%} |"
        assert line in page
    for name, terms in {**model.constants, "extra memory": model.memory}.items():
        row = re.search(rf"^\| {name}\b.*$", page, re.MULTILINE).group()
        for constant in terms.values():
            # In some unit, to three digits; what was fitted to nothing is left out.
            units = [f"{constant * unit:.3g}" for unit in (1, 1e-6, 1e3, 1e6, 1e9, 1e12)]
            assert constant < 1e-15 or any(f" {value} " in row for value in units), (name, constant, row)
