"""The figures of docs/audit_in_a_minute.md: what the first audit of the example finds."""

import json
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
ROLLOUTS = ROOT / "recipes" / "rollouts" / "substring_reward.jsonl"


def test_the_example_flags_71_rewards_of_which_56_are_among_the_76_wrong_ones(run, tmp_path):
    summary = run(ROLLOUTS, curator="denoise")
    rows = [json.loads(line) for line in ROLLOUTS.read_text(encoding="utf-8").splitlines()]
    wrong = pd.Series([row["reward"] != row["correct"] for row in rows])
    scores = pd.read_parquet(tmp_path / "out" / "scores.parquet")
    assert summary["counts"]["flagged"] == 71
    assert (wrong & scores["anomalous"]).sum() == 56
    assert wrong.sum() == 76
    # Nothing tells how far to believe the verifier, so no reward is changed.
    assert (scores["new_reward"] == scores["reward"]).all()
