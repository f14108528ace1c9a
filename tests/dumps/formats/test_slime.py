import math

import pytest
import torch
from dumps import slime
from written import read

from geoalign.errors import InputError


def saved(folder, *changes):
    """A file of the first samples, each with changes of its own."""
    samples = slime()["samples"][: len(changes)]
    for sample, change in zip(samples, changes, strict=True):
        sample.update(change)
    torch.save({"samples": samples}, folder / "7.pt")
    return folder / "7.pt"


def test_lengths_gold_answers_and_samples_without_a_reward(tmp_path):
    _, found = read(saved(tmp_path, {}, {"status": "aborted"}, {"status": "failed"}, {"status": "truncated"}))
    assert [row.tokens for row in found] == [4, 5, 6, 7]
    assert [row.truncated for row in found] == [False, False, False, True]
    assert {row.answer for row in found} == {"0"}
    assert [math.isnan(row.reward) for row in found] == [False, True, True, False]


def test_what_its_dapo_verifier_says(tmp_path):
    verdicts = [
        {"score": -1.0, "acc": False, "pred": "0"},
        {"score": 0.0, "acc": True, "pred": "1"},
        {"score": 1.0, "acc": True, "pred": "2"},
    ]
    _, found = read(saved(tmp_path, *({"reward": verdict} for verdict in verdicts)))
    assert [row.reward for row in found] == [-1.0, 0.0, 1.0]
    assert [row.final_answer for row in found] == ["0", "1", "2"]
    assert [row.correct for row in found] == [False, True, True]


def test_what_torch_saved_is_not_run(tmp_path):
    torch.save({"samples": [pytest.approx]}, tmp_path / "0.pt")
    with pytest.raises(InputError, match=r"0\.pt: expected slime's rollouts"):
        read(tmp_path / "0.pt")
