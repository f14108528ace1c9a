"""The mean score of each run before RL and over its last five evaluations: `python recipes/final.py RUN ...`."""

import sys

import pandas as pd

for folder in sys.argv[1:]:
    lines = pd.read_json(f"{folder}/evaluation.jsonl", lines=True)
    score = "accuracy" if lines["accuracy"].notna().all() else "reward"
    during = lines[lines["stage"] == "rl"]
    last = during[during["step"].isin(sorted(during["step"].unique())[-5:])]
    for name, rows in (("before RL", lines[lines["stage"] == "before_rl"]), ("last five", last)):
        by_set = rows.groupby("set")[score].mean()
        print(folder, name, f"mean {by_set.mean():.4f}", by_set.round(4).to_dict())
