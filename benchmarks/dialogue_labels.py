"""Labels as a person might give them: rollouts of the built-in dialogue task with their gold utility as true reward.

A training's `labelled_rollouts` must be on the scale of its rewards: these have mean and deviation of the reward
model's.
Run: python -m benchmarks.dialogue_labels RUN/rollouts/step-000000.parquet --prompts 6 > labels.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from geoalign.lab.data.dialogue import utility


def labelled(rollouts: Path, prompts: int) -> Iterator[dict[str, Any]]:
    """The rollouts of the first prompts of a generation that `geoalign train` wrote, with labels."""
    rows = [row for row in pyarrow.parquet.read_table(rollouts).to_pylist() if row["group"] < prompts]
    gold = np.array([utility(row["prompt"], row["response"]) for row in rows])
    given = np.array([row["true_reward"] for row in rows])
    labels = (gold - gold.mean()) / gold.std() * given.std() + given.mean()
    for row, label in zip(rows, labels, strict=True):
        kept = {name: row[name] for name in ("group", "prompt", "response", "reward")}
        yield {**kept, "reward": round(row["reward"], 3), "true_reward": round(float(label), 3)}


def main(rows_of: Callable[[Path, int], Iterator[dict[str, Any]]], about: str | None) -> None:
    """Prints the rows that a function makes of a file."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rollouts", type=Path, help="a file of a run's folder rollouts")
    parser.add_argument("--prompts", type=int, default=6, help="how many prompts, with all their responses")
    options = parser.parse_args()
    for row in rows_of(options.rollouts, options.prompts):
        print(json.dumps(row))


if __name__ == "__main__":
    main(labelled, __doc__)
