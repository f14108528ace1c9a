"""The conversion of OpenRLHF's rollouts."""

import importlib.util
import sys
from pathlib import Path

import forked
import pytest
import torch

from geoalign import GeoAlign
from geoalign.errors import InputError, UnsupportedError
from geoalign.types import Curation

PATH = Path(__file__).parents[2] / "recipes" / "other_engines.py"


def loaded():
    spec = importlib.util.spec_from_file_location("other_engines", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["other_engines"] = module
    spec.loader.exec_module(module)
    return module


RECIPE = loaded()


@pytest.fixture
def recipe():
    return RECIPE


def items():
    return [
        RECIPE.MadeUpExperience(
            index=[row],
            sequences=torch.arange(5) + row,
            rewards=torch.tensor(row / 8),
            response_length=torch.tensor(row + 1),
            truncated=torch.tensor(row == 3),
            info={"geoalign_hidden": torch.full((4,), float(row))},
        )
        for row in range(8)
    ]


def moved(source, rewards, **changes):
    rows = len(source)
    values = {
        "source": torch.tensor(source), "rewards": rewards[torch.tensor(source)], "weights": torch.ones(rows),
        "scores": torch.zeros(8), "anomalous": torch.zeros(8, dtype=torch.bool),
    }  # fmt: skip
    return Curation(**{**values, **changes})


def test_openrlhf_there_and_back(recipe):
    rows = items()
    found = recipe.openrlhf_rollouts(rows, range(8), 4)
    assert found.groups.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found.rewards.tolist() == [row / 8 for row in range(8)]
    assert found.lengths.tolist() == list(range(1, 9))
    assert found.donor_ok.tolist() == [row != 3 for row in range(8)]
    assert found.hidden[5].tolist() == [5.0] * 4
    new = recipe.curated_openrlhf(rows, found, moved([0, 1, 2, 3, 7, 5, 6, 7], found.rewards))
    assert new[4] is not rows[7]
    assert torch.equal(new[4].sequences, rows[7].sequences)
    assert (new[4].index, new[4].rewards.item(), rows[7].index) == ([4], 7 / 8, [7])
    assert all(new[row] is rows[row] for row in (0, 1, 2, 3, 5, 6, 7))


def test_what_the_conversion_does_not_carry_out(recipe):
    rollouts = recipe.openrlhf_rollouts(items(), range(8), 4)
    for curation in (
        moved([0, 1, 2, 3, 4, 5, 6], rollouts.rewards),
        moved(range(8), rollouts.rewards, weights=torch.zeros(8)),
        moved(range(8), rollouts.rewards, advantages=torch.zeros(8)),
        moved(range(8), rollouts.rewards / 2),
    ):
        with pytest.raises(UnsupportedError, match="expected a curator that replaces rollouts"):
            recipe.curated_openrlhf(items(), rollouts, curation)
    with pytest.raises(InputError, match="a multiple of 3 of them, got 8 items"):
        recipe.openrlhf_rollouts(items(), range(8), 3)
    rows = items()
    rows[6].info.clear()
    with pytest.raises(InputError, match="got none in row 6"):
        recipe.openrlhf_rollouts(rows, range(8), 4)
    assert recipe.openrlhf_rollouts(rows, range(8), 4, hidden=False).hidden is None


def test_the_recipe_runs(recipe):
    result = forked.run(PATH)
    assert result.returncode == 0, result.stderr
    assert "of 96 replaced" in result.stdout
    rows = recipe.made_up_experiences()
    rollouts = recipe.openrlhf_rollouts(rows, range(96), 8)
    assert int(GeoAlign(alpha=0.2).curate(rollouts, generator=torch.Generator().manual_seed(0)).replaced.sum()) > 0
