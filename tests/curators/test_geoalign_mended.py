"""GeoAlign's options against its own faults: the signed score, identical responses."""

from dataclasses import replace

import pytest
import torch

from geoalign import GeoAlign, ProjectorConfig, Rollouts
from geoalign.lab.analysis.statistics import auroc
from geoalign.lab.bench.synthetic import synthetic_rollouts

SMALL = ProjectorConfig(hidden_dim=32, output_dim=16, steps=20)


def curate(rollouts, seed=0, **settings):
    return GeoAlign(**settings).curate(rollouts, generator=torch.Generator().manual_seed(seed))


def planted(**kwargs):
    return synthetic_rollouts(48, 8, 32, **{"seed": 0, "signal": 2.0, "rewards": "binary", "corruption": 0.2, **kwargs})


@pytest.mark.parametrize("projector", [None, SMALL])
def test_the_signed_score_finds_wrong_rewards_of_either_value(projector):
    batch = planted()
    scores = curate(batch.rollouts, projector=projector, signed=True, scoring="cross_fit").scores.numpy()
    for value in (0.0, 1.0):
        rows = (batch.rollouts.rewards == value).numpy()
        assert auroc(scores[rows], batch.corrupted.numpy()[rows]) > 0.75


def test_the_signed_score_turns_with_the_rewards_but_does_not_see_their_scale():
    rollouts = planted(rewards="continuous").rollouts
    scores = curate(rollouts, projector=None, signed=True).scores
    larger = replace(rollouts, rewards=3 * rollouts.rewards + 7)
    assert torch.allclose(scores, curate(larger, projector=None, signed=True).scores, atol=1e-3)
    # Turned round, the prototype turns too: every place against its reward is as before.
    turned = replace(rollouts, rewards=-rollouts.rewards)
    assert torch.allclose(scores, curate(turned, projector=None, signed=True).scores, atol=1e-3)


def identical_pair():
    """Rewards 1 0 | 1 1 0 0: the first group holds one response twice; in the second rows 3 and 5 are one response."""
    hidden = torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [2.0, 0, 0], [0, 3.0, 0], [-2.0, 0, 0], [0, 3.0, 0]])
    return Rollouts(
        rewards=torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 0.0]), groups=torch.tensor([0, 0, 1, 1, 1, 1]), hidden=hidden
    )


def test_identical_responses_contradict_by_hand():
    settings = {"projector": None, "min_scores": 2}
    dropped = curate(identical_pair(), **settings)
    assert dropped.scores[:2].isnan().all()
    found = curate(identical_pair(), identical="contradict", **settings)
    # The first group has a single pair, without a direction: a deviation of 1 for both. Rows 3 and 5 have one more than
    # without; rows 2 and 4 are in no such pair.
    more = found.scores - dropped.scores
    assert found.scores[:2].tolist() == [1, 1]
    assert more[2:].tolist() == pytest.approx([0, 1, 0, 1])
    assert found.metrics["zero_displacements"] == dropped.metrics["zero_displacements"] == 2
    mean = curate(identical_pair(), identical="contradict", aggregation="mean", **settings)
    # Rows of the second group are in two pairs each.
    assert mean.scores.tolist() == pytest.approx([1, 1, *(found.scores[2:] / 2).tolist()])


def test_signed_contradictions_by_hand():
    settings = {"projector": None, "min_scores": 2, "signed": True}
    without, found = (
        curate(identical_pair(), identical=identical, **settings).scores for identical in ("drop", "contradict")
    )
    # The share of the others that contradict: 1 of 1 in the first group, 1 of 3 for rows 3 and 5 of the second.
    assert found[:2].tolist() == pytest.approx([1, 1])
    assert without[:2].isnan().all()
    assert (found - without)[2:].tolist() == pytest.approx([0, 1 / 3, 0, 1 / 3])


def test_equal_keys_contradict_though_states_differ_by_rounding():
    rollouts = identical_pair()
    apart = replace(rollouts, hidden=rollouts.hidden + 1e-3 * torch.randn(6, 3, generator=torch.Generator()))
    keyed = replace(apart, response_keys=torch.tensor([0, 0, 1, 2, 3, 2]))
    settings = {"projector": None, "min_scores": 2, "identical": "contradict"}
    assert curate(apart, **settings).metrics["zero_displacements"] == 0
    assert curate(keyed, **settings).scores[:2].tolist() == [1, 1]


def test_without_identical_responses_nothing_changes():
    rollouts = planted().rollouts
    for settings in ({"projector": SMALL}, {"projector": SMALL, "scoring": "cross_fit", "aggregation": "excess"}):
        plain, other = curate(rollouts, **settings), curate(rollouts, identical="contradict", **settings)
        assert torch.equal(plain.scores, other.scores)
        assert torch.equal(plain.source, other.source)
