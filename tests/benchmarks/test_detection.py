"""Detection benchmark: the scores and controls it compares, on batches small enough for a test."""

import json

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from geoalign import GeoAlign, GeoAlignConfig, ProjectorConfig, Rollouts
from geoalign.errors import InputError
from geoalign.lab.bench.batches import PlantedBatch, load_batch, save_batch
from geoalign.lab.bench.detection import (
    controls,
    detect,
    deviations,
    projectors,
    saved_batches,
    synthetic_batches,
)
from geoalign.lab.bench.detection_report import detection_json, markdown, print_detection
from geoalign.lab.cli import app


def hand_batch():
    # Group 0: rewards 1, 0, 0; group 1: all equal, so no pair.
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0]),
        groups=torch.tensor([0, 0, 0, 1, 1]),
        hidden=torch.randn(5, 4, generator=torch.Generator().manual_seed(0)),
    )
    return PlantedBatch(rollouts, torch.tensor([True, False, False, False, False]))


def test_controls_by_hand():
    found = controls(hand_batch())
    # Row 0 is in two pairs, rows 1 and 2 in one; distances to the mean 1/3: 2/3, 1/3, 1/3.
    assert found["pair count"][:3].tolist() == [2, 1, 1]
    assert found["fewest pairs"][:3].tolist() == [-2, -1, -1]
    assert found["distance to the group mean"][:3] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert found["closeness to the group mean"][:3] == pytest.approx([-2 / 3, -1 / 3, -1 / 3])
    for values in found.values():
        assert np.isnan(values[3:]).all()


def test_a_planted_direction_is_found_out_of_sample():
    (name, batches), *_ = [
        item
        for item in synthetic_batches(24, 8, widths=(32,), corruption=0.1, seeds=(0, 1, 2))
        if "isotropic, continuous" in item[0]
    ]
    rows = {row.score: row for row in detect(name, batches)}
    assert rows["GDI sum, paper's, cross fit"].auroc.estimate > 0.75
    # A control and its opposite add up to one.
    both = rows["pair count"].auroc.estimate + rows["fewest pairs"].auroc.estimate
    assert both == pytest.approx(1)
    assert 0.05 < rows["pair count"].base_rate < 0.2
    assert rows["pair count"].batches == 3


def test_deviations_know_every_variant():
    # Four projectors, two scorings, three aggregations.
    assert len(deviations(hand_batch(), 0)) == 24


@pytest.mark.parametrize(("rewards", "accuracy"), [([0.0, 1.0, 1.0], 0.95), ([0.0, 0.5, 1.0], 0.85)])
def test_the_papers_projector_stops_early_as_the_paper_does(rewards, accuracy):
    rewards = torch.tensor([*rewards, float("nan")])
    found = projectors(rewards)
    assert found["paper's"] == ProjectorConfig(target_accuracy=accuracy, groups_per_step=None, early_stop="paper")
    assert found["no early stop"] == ProjectorConfig(target_accuracy=None, groups_per_step=None, early_stop="paper")
    assert found["default"] == ProjectorConfig()
    assert found["raw"] is None


def test_the_papers_score_is_that_of_the_papers_settings():
    (_, (batch,)), *_ = synthetic_batches(16, 8, widths=(64,), corruption=0.1, seeds=(3,))
    own = GeoAlign(GeoAlignConfig.preset("paper", task="math"))
    scores = own.curate(batch.rollouts, generator=torch.Generator().manual_seed(7)).scores
    found = deviations(batch, 7)["GDI sum, paper's, in sample"]
    assert np.allclose(found, scores.numpy(), rtol=1e-5, equal_nan=True)


def test_the_table_of_the_documentation_is_made_from_the_file():
    (_, batches), *_ = synthetic_batches(8, 4, widths=(8,), corruption=0.2, seeds=(0, 1))
    rows = detect("small", batches)
    head, _, line = markdown(json.loads(detection_json(rows))).splitlines()
    row = next(row for row in rows if row.score == "GDI sum, paper's, in sample")
    expected = f"{row.auroc.estimate:.2f} / {row.average_precision.estimate:.2f}"
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:2] == ["small", expected]
    assert len(cells) == len(head.strip("|").split("|"))


def test_saved_batches_come_back(tmp_path):
    (_, (batch,)), *_ = synthetic_batches(4, 4, widths=(8,), corruption=0.2, seeds=(0,))
    folder = tmp_path / "real"
    folder.mkdir()
    save_batch(folder / "a.safetensors", batch)
    ((name, (again,)),) = saved_batches([folder / "a.safetensors"])
    assert name == "real"
    assert torch.equal(again.rollouts.hidden, batch.rollouts.hidden)
    assert torch.equal(again.corrupted, batch.corrupted)
    console = Console(width=160, record=True)
    print_detection(console, detect(name, [again]))
    assert "pair count" in console.export_text()


def test_the_command_scores_saved_batches(tmp_path):
    (_, (batch,)), *_ = synthetic_batches(8, 4, widths=(8,), corruption=0.2, seeds=(0,))
    save_batch(tmp_path / "a.safetensors", batch)
    arguments = ["bench", "--detection", "--batch", str(tmp_path / "a.safetensors"), "--json", str(tmp_path / "d.json")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "d.json").read_text())["detection"]
    assert {row["score"] for row in rows} >= {"pair count", "GDI sum, paper's, in sample"}
    assert all(row["batches"] == 1 for row in rows)


def test_broken_files_are_named(tmp_path):
    with pytest.raises(InputError, match="expected a safetensors file, got none"):
        load_batch(tmp_path / "none.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\x00")
    with pytest.raises(InputError, match=r"expected a whole safetensors file.*cut"):
        load_batch(tmp_path / "cut.safetensors")
    from safetensors.torch import save_file

    save_file({"hidden": torch.ones(2, 2)}, tmp_path / "few.safetensors")
    with pytest.raises(InputError, match="missing rewards, groups, corrupted"):
        load_batch(tmp_path / "few.safetensors")
