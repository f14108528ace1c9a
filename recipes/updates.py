"""Mean and median of the projector's accuracy and time, KL and clip fraction: `python recipes/updates.py RUN ...`."""

import sys

import pandas as pd

names = [
    "geoalign/heldout_pair_accuracy",
    "geoalign/seconds",
    "geoalign/hidden_seconds",
    "ppo_kl",
    "clip_ratio/region_mean",
]
for folder in sys.argv[1:]:
    lines = pd.read_json(f"{folder}/metrics.jsonl", lines=True)
    found = lines[lines["stage"] == "rl"].reindex(columns=names)
    print(folder, found.agg(["mean", "median"]).T, sep="\n")
