"""The shipped quickstart, run as the README says: it learns, and GeoAlign takes part."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
    assert curator["pairs"] > 1000
    assert curator["replaced"] > 10
    assert 0 <= curator["auroc"] <= 1
    # 5% of all rewards are flipped; a flip is in a pair more often than not, so among those in a pair it is more.
    assert 0.05 < curator["corrupted_share"] < 0.2
    assert (root / "report.html").stat().st_size > 10000
    lines = [json.loads(line) for line in (root / "metrics.jsonl").read_text().splitlines()]
    # The very first update has learning rate 0 (warm-up), so the policy has not moved before the second.
    second_updates = [line for line in lines if line["stage"] == "rl" and line["step"] % 2 == 0 and line["step"] > 2]
    assert all(line["ppo_kl"] != 0 for line in second_updates)
    assert any(line["clip_ratio/region_mean"] > 0 for line in second_updates)
