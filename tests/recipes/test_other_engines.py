"""The conversion of slime's and OpenRLHF's rollouts."""

import importlib.util
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forked
import pytest
import torch

from geoalign import CURATORS, GeoAlign
from geoalign.errors import InputError, UnsupportedError
from geoalign.types import Curation

RECIPE = Path(__file__).parents[2] / "recipes" / "other_engines.py"


@pytest.fixture(scope="module")
def recipe():
    spec = importlib.util.spec_from_file_location("other_engines", RECIPE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["other_engines"] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Experience:
    """The attributes of OpenRLHF's experience with one rollout that are used."""

    index: list[int]
    sequences: torch.Tensor
    rewards: torch.Tensor
    response_length: torch.Tensor
    truncated: torch.Tensor
    info: dict[str, Any] = field(default_factory=dict)


def items():
    return [
        Experience(
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


def test_slime_there_and_back(recipe):
    groups = recipe.made_up_samples(prompts=2, samples=4)
    groups[1][2].reward, groups[0][1].status.value = None, "truncated"
    groups[1][3].remove_sample = True  # a filter took it out of the loss
    groups[0].append(recipe.MadeUpSample(99, 9, 0.5, [7, 8], 2, {recipe.HIDDEN: [0.0] * 16}))  # a group of five
    found = recipe.slime_rollouts(groups)
    assert found.groups.tolist() == [0] * 5 + [1] * 4
    assert found.lengths.tolist() == [1, 1, 1, 1, 2, 1, 1, 1, 1]
    assert found.rewards[4] == 0.5
    assert math.isnan(found.rewards[7])
    assert found.donor_ok.tolist() == [True, False, *[True] * 6, False]
    assert torch.equal(found.hidden[3], torch.tensor(groups[0][3].metadata[recipe.HIDDEN]))
    same = recipe.curated_slime(groups, found, CURATORS["grpo"]().curate(found))
    assert all(new is old for one, other in zip(same, groups, strict=True) for new, old in zip(one, other, strict=True))


def test_a_replaced_slime_sample_is_a_copy_in_its_own_slot(recipe):
    groups = recipe.made_up_samples(prompts=2, samples=4)
    rollouts = recipe.slime_rollouts(groups)
    new = recipe.curated_slime(groups, rollouts, moved([0, 0, 2, 3, 4, 5, 6, 7], rollouts.rewards))
    assert [len(group) for group in new] == [4, 4]
    copy, donor = new[0][1], groups[0][0]
    assert copy is not donor
    assert (copy.index, copy.rollout_id, copy.tokens, copy.reward) == (1, 1, donor.tokens, donor.reward)
    assert (donor.index, donor.rollout_id) == (0, 0)
    copy.metadata[recipe.HIDDEN][0] = 99.0
    assert donor.metadata[recipe.HIDDEN][0] != 99.0


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


def test_openrlhf_items_in_another_order_than_their_prompts(recipe):
    """As its dynamic batches leave them: rewards[indices] = rewards, and groups of successive indices."""
    found = recipe.openrlhf_rollouts(items(), [1, 4, 2, 6, 0, 3, 7, 5], 4)
    assert found.groups.tolist() == [0, 1, 0, 1, 0, 0, 1, 1]
    with pytest.raises(InputError, match="indices: expected each of 0 to 7 once"):
        recipe.openrlhf_rollouts(items(), [1, 4, 2, 6, 0, 3, 7, 7], 4)


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
    result = forked.run(RECIPE)
    assert result.returncode == 0, result.stderr
    assert "of 96 replaced" in result.stdout
    groups = recipe.made_up_samples()
    curation = GeoAlign(alpha=0.2).curate(recipe.slime_rollouts(groups), generator=torch.Generator().manual_seed(0))
    assert int(curation.replaced.sum()) > 0
