import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file


def lines(root: Path, stage: str | None = None, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (root / name).read_text().splitlines()]
    return [line for line in found if stage in (None, line["stage"])]


def rollouts(root: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(root.glob("rollouts/*")) for row in pq.read_table(path).to_pylist()]


def weights(root: Path, name: str = "final") -> dict[str, torch.Tensor]:
    return load_file(root / "checkpoints" / name / "model.safetensors")


def same_weights(one: Path, other: Path, name: str = "final") -> bool:
    first, second = weights(one, name), weights(other, name)
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
