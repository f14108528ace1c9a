import json

import pytest
import torch
from benchmarks.curation import Shape, main
from rich.console import Console

from geoalign.errors import ConfigError
from geoalign.testing.synthetic import synthetic_rollouts


def test_shapes_are_read():
    assert Shape.parse("96x16x2048") == Shape(96, 16, 2048)
    for text in ("96x16", "96x0x8", "axbxc", "96x16x2048x1"):
        with pytest.raises(ConfigError, match="expected GROUPSxKxHIDDEN"):
            Shape.parse(text)


def test_the_script_writes_tables_and_json(tmp_path, monkeypatch):
    # Here, not in a process of its own.
    here = lambda measured, shapes, device, repeats: [measured(shape, device, repeats) for shape in shapes]  # noqa: E731
    monkeypatch.setattr("benchmarks.curation.in_fresh_processes", here)
    console = Console(record=True, width=160)
    target = tmp_path / "bench.json"
    main(["--shape", "4x4x32", "--repeats", "1", "--json", str(target)], console=console)
    assert "4 x 4, d = 32" in console.export_text()
    record = json.loads(target.read_text())
    # Continuous rewards without ties: 4 groups of 6 pairs.
    assert record["cost"][0]["pairs"] == 24
    assert record["cost"][0]["seconds"] > 0
    assert record["cost"][0]["denoise_seconds"] > 0


def test_synthetic_rollouts():
    data = synthetic_rollouts(200, 4, 64, seed=0, rewards="binary", corruption=0.25)
    clean = synthetic_rollouts(200, 4, 64, seed=0, rewards="binary", corruption=0.0)
    assert torch.equal(data.rollouts.rewards != clean.rollouts.rewards, data.corrupted)
    # 800 draws at 0.25: 200 expected, standard deviation 12.
    assert abs(int(data.corrupted.sum()) - 200) < 50
    assert torch.equal(data.rollouts.hidden, clean.rollouts.hidden)
    for states in ("isotropic", "compressible"):
        hidden = synthetic_rollouts(50, 8, 512, seed=1, states=states, signal=0.0).rollouts.hidden
        inside = hidden.view(50, 8, 512).var(1).mean(0)
        assert float(inside.mean()) == pytest.approx(1, abs=0.1)
        # The share of the variance in the 32 widest of 512 directions: 1/16 of even ones, nearly all of 1 / rank.
        share = float(inside.sort(descending=True).values[:32].sum() / inside.sum())
        assert (share < 0.15) if states == "isotropic" else (share > 0.9)


def test_corrupted_continuous_rewards_go_to_the_other_extreme():
    data = synthetic_rollouts(100, 8, 8, seed=0, corruption=0.1).rollouts.rewards.view(100, 8)
    clean = synthetic_rollouts(100, 8, 8, seed=0, corruption=0.0).rollouts.rewards.view(100, 8)
    moved = (data != clean).nonzero()
    assert len(moved) > 40
    for group, row in moved.tolist():
        extreme = clean[group].max() if clean[group, row] < clean[group].mean() else clean[group].min()
        assert float(data[group, row]) == pytest.approx(float(extreme), abs=0.01)
        assert float(data[group, row]) != float(extreme)
