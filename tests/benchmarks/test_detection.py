"""How well scores find corrupted rewards, and what curators make of them."""

import json

import numpy as np
import pytest
import torch
from benchmarks.detection import CURATOR_SETTINGS, WARM_UP, advantage_cosine, detect, saved, scores_of
from safetensors.torch import save_file

from benchmarks import detection
from geoalign import GeoAlign, GeoAlignConfig, Rollouts
from geoalign.lab.bench.synthetic import PlantedBatch, synthetic_rollouts


def batches(count=3, groups=24, d=32, **kwargs):
    return [synthetic_rollouts(groups, 8, d, seed=seed, **{"corruption": 0.2, **kwargs}) for seed in range(count)]


def test_controls_by_hand():
    # Group 0: rewards 1, 0, 0; group 1: all equal, so no pair.
    rewards, groups = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0]), torch.tensor([0, 0, 0, 1, 1])
    hidden = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    found = scores_of(PlantedBatch(Rollouts(rewards=rewards, groups=groups, hidden=hidden), rewards > 2), 0)
    assert len(found) == 2 + 24  # four projectors, two scorings, three aggregations
    assert found["pair count"][:3].tolist() == [2, 1, 1]
    assert found["distance to the group mean"][:3] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert all(np.isnan(score[3:]).all() for score in found.values())


def test_the_papers_score_is_that_of_the_papers_settings():
    (batch,) = batches(1, rewards="binary")
    own = GeoAlign(GeoAlignConfig.preset("paper", task="math"))
    scores = own.curate(batch.rollouts, generator=torch.Generator().manual_seed(7)).scores
    assert np.allclose(scores_of(batch, 7)["GDI sum, paper's, in sample"], scores.numpy(), rtol=1e-5, equal_nan=True)


def test_a_planted_direction_is_found_out_of_sample():
    area, precision = detect(batches(1))["GDI sum, paper's, cross fit"]
    assert area.estimate > 0.75
    assert precision.estimate > 0.4


def test_the_oracle_bounds_and_denoise_beats_grpo_where_states_tell():
    sequence = batches(WARM_UP + 3, rewards="binary", signal=1.5, d=16)
    cosines = {name: advantage_cosine(*CURATOR_SETTINGS[name], sequence).estimate for name in CURATOR_SETTINGS}
    assert cosines["denoise"] > cosines["grpo"] + 0.05
    assert cosines["oracle"] > cosines["grpo"]


def test_the_command_measures_saved_batches(tmp_path, monkeypatch, capsys):
    for number, batch in enumerate(batches(WARM_UP + 1, groups=8, rewards="binary")):
        fields = {name: getattr(batch.rollouts, name) for name in ("hidden", "rewards", "groups", "true_rewards")}
        save_file(fields, tmp_path / f"{number}.safetensors")
    files = sorted(tmp_path.glob("*.safetensors"))
    ((name, (first, *_)),) = saved(files)
    assert torch.equal(first.corrupted, batches(1, groups=8, rewards="binary")[0].corrupted)
    words = [word for file in files for word in ("--batch", str(file))]
    detection.main([*words, "--seeds", "1", "--json", str(tmp_path / "found.json")])
    head, rule, line = capsys.readouterr().out.splitlines()
    assert head.count("|") == rule.count("|") == line.count("|")
    record = json.loads((tmp_path / "found.json").read_text())
    area, precision = record["detection"][name]["pair count"]
    assert f"{area['estimate']:.2f} / {precision['estimate']:.2f}" in line
    assert list(record["curators"][name]) == list(CURATOR_SETTINGS)
