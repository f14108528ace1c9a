"""Whole runs with corrupted rewards of either kind, and what the metrics say of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from geoalign.errors import ConfigError
from geoalign.lab.rewards import corruption_mask

Train = Callable[..., dict[str, Any]]
Tiny = Callable[..., dict[str, Any]]


def rollouts(root: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(root.glob("rollouts/*")) for row in pq.read_table(path).to_pylist()]


def lines(root: Path, name: str, stage: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (root / name).read_text().splitlines()]
    return [line for line in found if line["stage"] == stage]


def test_extremes_in_a_run(continuous: None, tiny: Tiny, train_here: Train, tmp_path: Path) -> None:
    settings = tiny(reward={"flip": 0.0, "extremes": 0.5, "jitter": 0.0}, evaluation={"pass_samples": 3})
    summary = train_here(settings, tmp_path / "run", report=True)
    rows = rollouts(tmp_path / "run")
    assert len(rows) == 32
    changed = 0
    for start in range(0, 32, 4):
        group = rows[start : start + 4]
        clean = [row["true_reward"] for row in group]
        prompt = group[0]["prompt"].rstrip("=")
        mask = corruption_mask(
            seed=0, step=group[0]["step"], prompt_ids=[f"train:{prompt}"] * 4, sample_indices=[0, 1, 2, 3], rate=0.5
        )
        for row, drawn in zip(group, mask, strict=True):
            expected = max(clean) if row["true_reward"] < sum(clean) / 4 else min(clean)
            assert row["reward"] == (expected if drawn else row["true_reward"])
            assert row["corrupted"] == (row["reward"] != row["true_reward"])
            changed += row["corrupted"]
    assert changed > 0
    # The evaluation knows the clean reward and the gold utility, and no accuracy.
    before, after = (
        lines(tmp_path / "run", "evaluation.jsonl", "before_rl"),
        lines(tmp_path / "run", "evaluation.jsonl", "after_rl"),
    )
    for line, samples in ((before[0], 1), (after[0], 3)):
        assert (line["accuracy"], line["correct"], line["pass_at_k"]) == (None, None, None)
        assert (line["samples"], line["count"]) == (samples, 4 * samples)
        assert line["reward"] >= 0 >= line["gold_utility"]
    assert summary["reward"]["after_rl"] == {"arithmetic": after[0]["reward"]}
    assert summary["gold_utility"]["after_rl"] == {"arithmetic": after[0]["gold_utility"]}
    # The mean of the clean rewards of each generation, beside that of the corrupted ones.
    for line in lines(tmp_path / "run", "metrics.jsonl", "rl"):
        rewards = [row["true_reward"] for row in rows if row["step"] == line["step"] - 1]
        if rewards:
            assert line["true_reward"] == pytest.approx(sum(rewards) / 16)


def test_policy_shift_and_clip_fraction_stand_in_the_metrics_without_a_kl_term(
    tiny: Tiny, train_here: Train, tmp_path: Path
) -> None:
    train_here(tiny(grpo={"beta": 0.0, "learning_rate": 0.01, "warmup_steps": 0}), tmp_path / "run")
    found = lines(tmp_path / "run", "metrics.jsonl", "rl")
    assert [line["step"] for line in found] == [1, 2, 3, 4]
    assert all("ppo_kl" in line and "clip_ratio/region_mean" in line for line in found)
    # Two updates on each generation: at the first the policy is that which generated, at the second it is not.
    assert [line["ppo_kl"] == 0 for line in found] == [True, False, True, False]
    generations = [line for line in found if "true_reward" in line]
    assert [line["step"] for line in generations] == [1, 3]
    assert all(line["mean_abs_advantage"] > 0 and line["geoalign/seconds"] >= 0 for line in generations)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reward": {"extremes": 0.1}}, r"^reward\.extremes: expected 0, .*use reward\.flip"),
        ({"reward": {"flip": 2.0}}, "flip"),
    ],
)
def test_a_corruption_that_does_not_fit_is_refused_before_anything_is_written(
    tiny: Tiny, train_here: Train, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        train_here(tiny(**changed), tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
