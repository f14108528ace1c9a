import json

import numpy as np
import pytest
import torch
from benchmarks.detection import CURATOR_SETTINGS, advantage_cosine, detect, saved, scores_of
from safetensors.torch import save_file

from benchmarks import detection
from geoalign import GeoAlign, GeoAlignConfig, Rollouts
from geoalign.testing.synthetic import PlantedBatch, synthetic_rollouts


@pytest.fixture(autouse=True)
def _quick(unchecked_shapes, monkeypatch):
    monkeypatch.setattr(detection, "WARM_UP", 1)


def batches(count=3, groups=16, d=16, **kwargs):
    given = {"corruption": 0.2, "rewards": "binary", **kwargs}
    return [synthetic_rollouts(groups, 8, d, seed=seed, **given) for seed in range(count)]


def test_controls_by_hand():
    # Group 0: rewards 1, 0, 0; group 1: all equal, so no pair.
    rewards, groups = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0]), torch.tensor([0, 0, 0, 1, 1])
    hidden = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    found = scores_of(PlantedBatch(Rollouts(rewards=rewards, groups=groups, hidden=hidden), rewards > 2), 0)
    assert len(found) == 2 + 24  # four projectors, two scorings, three aggregations
    assert found["pair count"][:3].tolist() == [2, 1, 1]
    assert found["distance to the group mean"][:3] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert all(np.isnan(score[3:]).all() for score in found.values())


def test_the_papers_score_is_that_of_the_papers_settings_and_a_planted_direction_is_found(monkeypatch):
    (batch,) = batches(1, groups=32, signal=2.0)
    scores = scores_of(batch, 0)
    own = GeoAlign(GeoAlignConfig.preset("paper", task="math"))
    expected = own.curate(batch.rollouts, generator=torch.Generator().manual_seed(0)).scores.numpy()
    assert np.allclose(scores["GDI sum, paper's, in sample"], expected, rtol=1e-5, equal_nan=True)
    monkeypatch.setattr(detection, "scores_of", lambda batch, seed: scores)
    area, precision = detect([batch])["GDI sum, paper's, cross fit"]
    assert area.estimate > 0.75
    assert precision.estimate > 0.4


def test_the_oracle_bounds_and_denoise_beats_grpo_where_states_tell():
    sequence = batches(4, groups=24, signal=1.5)
    names = ("grpo", "denoise", "oracle")
    cosines = {name: advantage_cosine(*CURATOR_SETTINGS[name], sequence).estimate for name in names}
    assert cosines["denoise"] > cosines["grpo"] + 0.05
    assert cosines["oracle"] > cosines["grpo"]


def test_the_command_measures_saved_batches(tmp_path, capsys):
    for number, batch in enumerate(batches(2, groups=6)):
        fields = {name: getattr(batch.rollouts, name) for name in ("hidden", "rewards", "groups", "true_rewards")}
        save_file(fields, tmp_path / f"{number}.safetensors")
    files = sorted(tmp_path.glob("*.safetensors"))
    ((name, (first, *_)),) = saved(files)
    assert torch.equal(first.corrupted, batches(1, groups=6)[0].corrupted)
    words = [word for file in files for word in ("--batch", str(file))]
    detection.main([*words, "--seeds", "1", "--json", str(tmp_path / "found.json")])
    head, rule, line = capsys.readouterr().out.splitlines()
    assert head.count("|") == rule.count("|") == line.count("|")
    record = json.loads((tmp_path / "found.json").read_text())
    area, precision = record["detection"][name]["pair count"]
    assert f"{area['estimate']:.2f} / {precision['estimate']:.2f}" in line
    assert list(record["curators"][name]) == list(CURATOR_SETTINGS)
