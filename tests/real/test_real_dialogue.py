"""The dialogue track of a real model, made small, on real preferences: run by `make real`."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from geoalign.lab.compare.checks import shape_of
from geoalign.lab.compare.plan import planned_runs
from geoalign.lab.compare.read_settings import load_compare_config
from geoalign.lab.train.read_settings import load_run_config
from geoalign.lab.train.train import train

pytestmark = pytest.mark.real

REAL = Path(__file__).parents[2] / "configs" / "real"


@pytest.fixture
def files(shared_data: Path, smollm2: Path, tmp_path: Path) -> dict[str, Path]:
    """The model; pairs, and dialogues whose prompts are asked in evaluation: a file of HH-RLHF cut in two."""
    with gzip.open(shared_data / "hh_rlhf/harmless-base/test.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = list(lines)
    paths = {"train": tmp_path / "pairs.jsonl", "evaluation.harmless": tmp_path / "asked.jsonl"}
    for path, part in zip(paths.values(), (rows[:-212], rows[-212:]), strict=True):
        path.write_text("".join(part), encoding="utf-8")
    return {"model.path": smollm2} | {f"task.{name}": path for name, path in paths.items()}


@pytest.fixture
def switches() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


def test_every_arm_could_start(files: dict[str, Path]) -> None:
    config = load_compare_config(REAL / "compare_dialogue.yaml", [f"run.{key}={path}" for key, path in files.items()])
    tasks: dict[str, Any] = {}
    shapes = [shape_of(planned.settings, tasks) for planned in planned_runs(config.config)]
    assert {shape["updates_per_generation"] for shape in shapes} == {2}
    assert len({shape["max_steps"] for shape in shapes}) == 1


@pytest.mark.usefixtures("switches")
def test_a_run_made_small_measures_by_both_models(files: dict[str, Path], tmp_path: Path) -> None:
    small = ["task.limit=16", "task.held_out=0.5", "reward_head.layers=4", "max_prompt_length=60"]
    small += ["grpo.max_steps=2", "grpo.save_steps=2", "grpo.max_completion_length=4"]
    small += ["grpo.steps_per_generation=2", "grpo.gradient_accumulation_steps=1"]
    small += ["evaluation.every=null", "evaluation.problems=2"]
    given = [f"{key}={path}" for key, path in files.items()]
    config = load_run_config(REAL / "dialogue.yaml", [*given, *small]).config
    summary = train(config, tmp_path / "run", report=False, console=Console(file=io.StringIO()))
    assert summary["reward_model"]["count"] == summary["gold_model"]["count"] >= 4
    (line,) = [
        found
        for found in map(json.loads, (tmp_path / "run" / "evaluation.jsonl").read_text().splitlines())
        if found["stage"] == "after_rl"
    ]
    assert line["reward"] != line["gold_utility"]
    assert all(isinstance(line[name], float) for name in ("reward", "gold_utility"))
