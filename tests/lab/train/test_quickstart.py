"""The shipped settings: the quickstart, run as the README says, learns with denoise; dialogue raises the reward."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from geoalign.lab.train.read_settings import load_run_config
from geoalign.settings.loading import plain_settings

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_quickstart_learns_while_rewards_are_flipped(tmp_path: Path) -> None:
    root = tmp_path / "quickstart"
    command = [sys.executable, "-m", "geoalign", "train", "configs/quickstart.yaml", "--output", str(root)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads((root / "summary.json").read_text())
    before = summary["accuracy"]["before_rl"]["arithmetic"]
    after = summary["accuracy"]["after_rl"]["arithmetic"]
    # 256 answers: a standard error of 0.03 each, so that 0.15 is no accident.
    assert after > before + 0.15
    curator = summary["curator"]
    # The score tells the wrong rewards from the right ones.
    assert curator["auroc"] > 0.8
    # 5% of all rewards are flipped; a flip is in a pair more often than not, so among those in a pair it is more.
    assert 0.05 < curator["corrupted_share"] < 0.2
    assert (root / "report.html").stat().st_size > 10000
    lines = [json.loads(line) for line in (root / "metrics.jsonl").read_text().splitlines()]
    # The very first update has learning rate 0 (warm-up), so the policy has not moved before the second.
    second_updates = [line for line in lines if line["stage"] == "rl" and line["step"] % 2 == 0 and line["step"] > 2]
    assert all(line["ppo_kl"] != 0 for line in second_updates)
    assert any(line["clip_ratio/region_mean"] > 0 for line in second_updates)


@pytest.mark.slow
def test_the_shipped_settings_raise_the_reward_and_the_curves_part(train_here, tmp_path):
    config = load_run_config(REPOSITORY / "configs" / "dialogue.yaml", ["curator.type=grpo"]).config
    summary = train_here(plain_settings(config), tmp_path / "run")
    assert summary["reward_model"]["accuracy"] > 0.8
    # The rejected response flatters: a reward model that ranked content alone would get most of these right.
    assert summary["reward_model"]["against_shortcut"] < 0.5
    before, after = (summary["reward"][stage]["dialogue"] for stage in ("before_rl", "after_rl"))
    # Three runs scattered by 0.1 around a gain of 2.8.
    assert after > before + 1.5
    gold_before, gold_after = (summary["gold_utility"][stage]["dialogue"] for stage in ("before_rl", "after_rl"))
    assert gold_after < gold_before + 0.3
