"""A generated run folder of schema version 1, as `geoalign train` leaves it, without training anything."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from safetensors.numpy import save_file

from geoalign.files.rollout_step import RolloutStep
from geoalign.lab.runs.rollouts import ROLLOUT_SCHEMA
from geoalign.settings.yaml_text import dump_yaml

NAN = math.nan


@pytest.fixture
def make_run(tmp_path):
    def make(*, steps=12, flip=0.05, curator="geoalign", name="run"):
        return write_run_folder(tmp_path / name, steps=steps, flip=flip, curator=curator)

    return make


@pytest.fixture(scope="session")
def write_run():
    return write_run_folder


@pytest.fixture
def write_rows():
    """Writes one rollout file from rows given as dicts; what a row does not give has a neutral value."""
    return _write_rows


@pytest.fixture
def rollout_step():
    """Makes one step of as many rows as `reward` has; columns that are not given are neutral."""
    return _rollout_step


def _rollout_step(**columns):
    size = len(columns["reward"])
    neutral = {
        "row": np.arange(size), "group": np.zeros(size, dtype=int), "true_reward": np.full(size, NAN),
        "flipped": np.zeros(size, dtype=bool), "flip_known": np.ones(size, dtype=bool), "score": np.full(size, NAN),
        "anomalous": np.zeros(size, dtype=bool), "source": np.arange(size), "weight": np.ones(size),
    }  # fmt: skip
    arrays = {name: np.asarray(columns.get(name, value)) for name, value in neutral.items()}
    return RolloutStep(step=1, path=Path("none"), reward=np.asarray(columns["reward"], dtype=float), **arrays)


def write_run_folder(folder, *, steps, flip, curator):
    """A finished run: `steps` RL steps of 24 groups x 8, in which GDI rises with being flipped."""
    generator = np.random.default_rng(0)
    (folder / "rollouts").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    kinds = {"model": "tiny", "task": "arithmetic", "curator": curator}
    config = {**{name: {"type": kind} for name, kind in kinds.items()}, "reward": {"flip": flip}, "seed": 0}
    (folder / "config.yaml").write_text(dump_yaml(config))
    versions = {"schema_version": 1, "geoalign": "0.1.0", "python": "3.12.0", "torch": "2.13.0"}
    (folder / "versions.json").write_text(json.dumps(versions))
    metrics = [{"stage": "sft", "step": step, "loss": 3 / (step + 1)} for step in range(1, 6)]
    for step in range(1, steps + 1):
        rows = _rows(generator, step, flip, scored=curator == "geoalign")
        _write_rows(folder, step, rows)
        metrics.append(_metrics(generator, step, steps, rows, curator))
    if curator == "geoalign":
        for step in sorted({1, (steps + 1) // 2, steps}):
            _write_details(folder, step, generator)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    (folder / "evaluation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _evaluations(steps)))
    (folder / "summary.json").write_text(json.dumps({"accuracy_before": 0.3, "accuracy_after": 0.62}))
    return folder


def _rows(generator, step, flip, *, scored):
    rows = []
    for group in range(24):
        hard = generator.uniform(0.1, 0.9)
        true = (generator.random(8) < hard).astype(float)
        flipped = generator.random(8) < flip
        reward = np.where(flipped, 1 - true, true)
        pairs = [int((reward != value).sum()) for value in reward]
        for sample in range(8):
            mean = generator.gamma(4, 0.05) + 0.25 * flipped[sample]
            score = pairs[sample] * mean if scored and pairs[sample] else None
            rows.append(
                {
                    "step": step, "row": group * 8 + sample, "group": group, "sample": sample,
                    "prompt": f"{group + 11}+{step + 20}=",
                    "response": f"{group + 11} plus {step + 20}: tens, then ones, so \\boxed{{{group + step + 31}}}",
                    "reward": float(reward[sample]), "true_reward": float(true[sample]),
                    "corrupted": bool(flipped[sample]), "score": score, "anomalous": False,
                    "source": group * 8 + sample, "weight": 1.0, "tokens": 12,
                }
            )  # fmt: skip
    scores = np.array([row["score"] if row["score"] is not None else -1 for row in rows])
    if scored:
        _flag(rows, scores)
    return rows


def _flag(rows, scores):
    for at in np.argsort(-scores)[:9]:
        rows[at]["anomalous"] = True
    for row in rows:
        donors = [other["row"] for other in rows if other["group"] == row["group"] and not other["anomalous"]]
        if row["anomalous"] and donors:
            row["source"] = donors[0]


def _metrics(generator, step, steps, rows, curator):
    progress = step / steps
    row = {
        "stage": "rl", "step": step, "loss": 0.01 * generator.normal(), "kl": None,
        "reward": float(np.mean([item["reward"] for item in rows])),
        "ppo_kl": abs(generator.normal(1e-3, 3e-4)), "clip_ratio/region_mean": abs(generator.normal(0.01, 0.004)),
        "epoch": progress,
    }  # fmt: skip
    if curator != "geoalign":
        return row
    accuracy = 0.6 + 0.1 * progress + 0.04 * generator.normal()
    new = {"new_group_accuracy": accuracy, "new_group_accuracy_low": accuracy - 0.09}
    new["new_group_accuracy_high"] = accuracy + 0.09
    if step == 1:
        new = dict.fromkeys(new)
    curated = {
        **new, "pairs": 310.0, "scored_rollouts": float(sum(item["score"] is not None for item in rows)),
        "train_accuracy": min(1.0, accuracy + 0.2), "heldout_pair_accuracy": min(1.0, accuracy + 0.12),
        "chance_accuracy": 0.5, "anomalous": 9.0, "replaced": 9.0, "groups_without_donor": 0.0, "seconds": 0.2,
        "zero_displacements": 1.0, "projected_cosine_share_080": 0.6, "threshold": 1.7,
    }  # fmt: skip
    return {**row, **{f"geoalign/{key}": value for key, value in curated.items()}}


def _evaluations(steps):
    rows = [{"step": 0, "stage": "before_rl", "set": "arithmetic", "accuracy": 0.3, "correct": 60, "count": 200}]
    for step in range(3, steps, 3):
        correct = 60 + 64 * step // steps
        rows.append({"step": step, "stage": "rl", "set": "arithmetic", "accuracy": correct / 200, "correct": correct,
                     "count": 200})  # fmt: skip
    last = {"step": steps, "stage": "after_rl", "set": "arithmetic", "accuracy": 0.62, "correct": 124, "count": 200}
    return [*rows, last]


def _write_rows(folder, step, rows):
    neutral = {
        "step": step, "group": 0, "sample": 0, "prompt": "1+1=", "response": "2", "reward": 0.0, "true_reward": None,
        "corrupted": None, "score": None, "anomalous": False, "weight": 1.0, "tokens": 1,
    }  # fmt: skip
    full = [{**neutral, "row": at, "source": row.get("row", at), **row} for at, row in enumerate(rows)]
    (folder / "rollouts").mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(full, schema=ROLLOUT_SCHEMA)
    pyarrow.parquet.write_table(table, folder / "rollouts" / f"step-{step:06d}.parquet")


def _write_details(folder, step, generator):
    pairs = 310
    raw, projected = generator.normal(0.15, 0.2, pairs), 1 - generator.gamma(1.5, 0.12, pairs)
    grid = np.linspace(0, 4, 256)
    density = np.exp(-((grid - 0.8) ** 2) / 0.3) + 0.02 * np.exp(-((grid - 3) ** 2) / 0.1)
    beyond = (grid > 0.8) & (density < 0.05 * density.max())
    (folder / "details").mkdir(exist_ok=True)
    tensors = {
        "pairs.winner": generator.integers(0, 192, pairs), "pairs.loser": generator.integers(0, 192, pairs),
        "pairs.margin": np.ones(pairs), "pairs.deviation": 1 - projected,
        "pairs.raw_cosine": np.clip(raw, -1, 1), "pairs.projected_cosine": np.clip(projected, -1, 1),
        "density.grid": grid, "density.density": density,
    }  # fmt: skip
    for name in ("pairs.margin", "pairs.deviation", "pairs.raw_cosine", "pairs.projected_cosine"):
        tensors[name] = tensors[name].astype(np.float32)
    numbers = {"peak": float(density.max()), "mode": 0.8, "alpha": 0.05, "threshold": float(grid[beyond][0])}
    path = folder / "details" / f"step-{step:06d}.safetensors"
    save_file(tensors, path, metadata={"density": json.dumps(numbers)})
