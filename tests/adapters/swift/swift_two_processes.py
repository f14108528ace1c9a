"""One training on two processes (torchrun, gloo): rows of the second half of each group take those of the first."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from swift_parts import train  # noqa: E402
from trl_parts import Scripted, second_half_from_first  # noqa: E402

if __name__ == "__main__":
    inputs, folder = map(Path, sys.argv[1:])
    watcher = Scripted(second_half_from_first, requires=("hidden", "lengths"))
    # Two rows a process: every group of 4 lies on both.
    made = train(inputs, folder, watcher, per_device_train_batch_size=2, ddp_backend="gloo")
    rewards = [seen.rewards.tolist() for seen in watcher.seen]
    found = {"entered": made.entered, "rewards": rewards, "world": made.accelerator.num_processes}
    (folder / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(found))
