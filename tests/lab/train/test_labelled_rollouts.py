"""A run whose curator sees rollouts with true rewards; what it draws and records is the batch alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_files import lines, rollouts, same_weights

from geoalign.errors import ConfigError
from geoalign.lab.train.recorder import record


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Eight prompts with a right response and two wrong ones."""
    path = tmp_path / "labelled.jsonl"
    rows = [
        {"prompt": f"{n} + {n}", "response": text, "reward": float(text == str(2 * n))}
        for n in range(1, 9)
        for text in (str(2 * n), str(n), "0")
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def settings(tiny: Any, labelled: Path | None, **sections: Any) -> dict[str, Any]:
    changed = {
        "curator": {"type": "denoise", "level": 0.01},
        "hidden_position": "mean",
        "grpo": {"num_generations": 8, "per_device_train_batch_size": 32},
        **sections,
    }
    return {**tiny(**changed), "labelled_rollouts": None if labelled is None else str(labelled)}


def test_the_curator_sees_them_nothing_else_does_and_a_run_goes_on_with_the_same_alone(
    tiny, file, train_here, tmp_path, monkeypatch
):
    given = settings(tiny, file)
    train_here(given, tmp_path / "with")
    train_here(settings(tiny, None), tmp_path / "without")
    assert [
        line["geoalign/labelled_rollouts"] for line in lines(tmp_path / "with") if "geoalign/labelled_rollouts" in line
    ] == [24.0, 24.0]
    beside, alone = ([row for row in rollouts(tmp_path / name) if row["step"] == 0] for name in ("with", "without"))
    assert len(beside) == len(alone) == 64
    # The same draws, and another verdict on them.
    for name in ("prompt", "response", "reward"):
        assert [row[name] for row in beside] == [row[name] for row in alone]
    assert [row["score"] for row in beside] != [row["score"] for row in alone]
    assert not same_weights(tmp_path / "with", tmp_path / "without")

    def stopped(folder: Any, curated: Any, **options: Any) -> None:
        if curated.step == 2:
            raise RuntimeError("stopped behind the checkpoint of step 2")
        record(folder, curated, **options)

    with monkeypatch.context() as patch:
        patch.setattr("geoalign.lab.train.policy.record", stopped)
        with pytest.raises(RuntimeError, match="stopped behind"):
            train_here(given, tmp_path / "run")
    train_here(given, tmp_path / "run", resume=True)
    assert same_weights(tmp_path / "with", tmp_path / "run")


def test_refused_before_anything_is_written(tiny, file, train_here, tmp_path):
    with pytest.raises(
        ConfigError, match=r"labelled_rollouts: expected a curator that reads trusted rewards.* got GRPO"
    ):
        train_here(settings(tiny, file, curator={"type": "grpo"}), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"gone\.jsonl: expected a file of rollouts, got none there"):
        train_here(settings(tiny, tmp_path / "gone.jsonl"), tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
