"""What a run has left in its folder."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file


def lines(root: Path, stage: str | None = None, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The lines of a log, of one stage only where it is named."""
    found = [json.loads(line) for line in (root / name).read_text().splitlines()]
    return [line for line in found if stage in (None, line["stage"])]


def rollouts(root: Path) -> list[dict[str, Any]]:
    """The rows of all rollout files."""
    return [row for path in sorted(root.glob("rollouts/*")) for row in pq.read_table(path).to_pylist()]


def weights(root: Path, name: str = "final") -> dict[str, torch.Tensor]:
    """A model of a run, by default the trained one."""
    return load_file(root / "checkpoints" / name / "model.safetensors")


def same_weights(one: Path, other: Path, name: str = "final") -> bool:
    """Whether a model of two runs is the same bit for bit."""
    first, second = weights(one, name), weights(other, name)
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
