"""GeoAlign's options against its own faults: the signed score, identical responses, prototypes without the extremes."""

from dataclasses import replace

import pytest
import torch

from geoalign import GeoAlign, ProjectorConfig, Rollouts
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError
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


def test_a_trimmed_prototype_by_hand():
    # Rewards 0 1 2 3. The best and the worst lie the other way round on the second axis; the pair between them has the
    # direction (1, 0), which is the prototype. Its own deviation is 0; rows 0 and 3: direction (0, -1), deviation 1.
    hidden = torch.tensor([[0.0, 5.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -5.0]])
    rollouts = Rollouts(rewards=torch.arange(4.0), groups=torch.zeros(4, dtype=torch.long), hidden=hidden)
    scores = curate(rollouts, projector=None, trim=1, min_scores=2).scores
    # Pairs (2, 0) and (3, 2), (3, 1), (1, 0): displacements (1, -5), (-1, -5), (1, -5), (-1, -5), cosines
    # +-1 / sqrt(26) = +-0.196. Row 0: (3, 0) 1, (2, 0) 1 - 0.196, (1, 0) 1 + 0.196, together 3. Row 1: (2, 1) 0,
    # (1, 0) 1 + 0.196, (3, 1) 1 - 0.196, together 2.
    assert scores.tolist() == pytest.approx([3, 2, 2, 3], abs=1e-5)
    whole = curate(rollouts, projector=None, min_scores=2).scores
    assert whole[1] > whole[0]  # the extremes' direction is the prototype, and the rows between contradict it


@pytest.mark.parametrize("scoring", ["in_sample", "cross_fit"])
def test_trimming_mends_a_consensus_that_the_extremes_turned(scoring):
    # Half of the rewards go to the other end of their group: what stands between the ends is right.
    batch = planted(rewards="continuous", corruption=0.5)
    accuracy = {}
    for trim in (0, 2):
        settings = {"projector": None, "signed": True, "scoring": scoring, "trim": trim}
        scores = curate(batch.rollouts, **settings).scores.numpy()
        accuracy[trim] = auroc(scores, batch.corrupted.numpy())
    assert accuracy[2] > accuracy[0] + 0.1
    assert accuracy[2] > 0.6


def test_groups_without_an_interior_are_scored_by_the_others():
    batch = planted(rewards="continuous")
    rollouts = batch.rollouts
    small = Rollouts(  # the first group has three rows: none is left between the best two and the worst two
        rewards=rollouts.rewards[5:], groups=rollouts.groups[5:], hidden=rollouts.hidden[5:]
    )
    for scoring in ("in_sample", "cross_fit"):
        curation = curate(small, projector=SMALL, trim=2, scoring=scoring)
        assert not curation.scores.isnan().any()


def test_without_any_interior_pair_nothing_is_scored():
    batch = planted()
    curation = curate(batch.rollouts, projector=SMALL, trim=4, min_scores=2)
    assert curation.scores.isnan().all()
    assert not curation.replaced.any()


def test_trim_leaves_something_of_the_extremes():
    with pytest.raises(ConfigError, match="trim: expected less than top_m 2, got 2"):
        GeoAlign(top_m=2, trim=2)


def test_the_budget_is_estimated_from_identical_responses():
    # 8 x 8 rows: in the first group rows 0 to 4 are one response with rewards 1 1 1 1 0, so 4 of 10 pairs differ:
    # e = (1 - sqrt(1 - 0.8)) / 2 = 0.276. Row 4 is in no pair; of the other 63, 0.276 * 63 = 17.4, so 17, are flagged.
    draw = torch.Generator().manual_seed(0)
    rewards = torch.tensor([1.0, 0, 1, 0, 1, 0, 1, 0] * 8)
    rewards[:8] = torch.tensor([1.0, 1, 1, 1, 0, 0, 0, 0])
    hidden = torch.randn(64, 6, generator=draw)
    hidden[:5] = hidden[0]
    rollouts = Rollouts(rewards=rewards, groups=torch.arange(64) // 8, hidden=hidden)
    settings = {"projector": None, "budget": "estimated", "max_fraction": None}
    curation = curate(rollouts, **settings)
    assert curation.metrics["error_rate"] == pytest.approx((1 - 0.2**0.5) / 2)
    assert int(curation.anomalous.sum()) == 17
    others = curation.scores[~curation.anomalous]
    assert curation.scores[curation.anomalous].min() >= others[~others.isnan()].max()
    assert int(curate(rollouts, **{**settings, "max_fraction": 0.1}).anomalous.sum()) == 6
    assert not curate(rollouts, **settings, min_scores=65).anomalous.any()


def test_without_identical_responses_the_density_decides():
    rollouts = planted().rollouts
    plain, other = curate(rollouts, projector=SMALL), curate(rollouts, projector=SMALL, budget="estimated")
    assert torch.equal(plain.anomalous, other.anomalous)
    assert other.metrics["error_rate"] != other.metrics["error_rate"]
    assert "error_rate" not in plain.metrics


def test_ranks_weigh_pairs_by_place():
    # Rewards 0 1 100: by rewards the pairs of the last row weigh 100 and 99, that of the others 1; by ranks 2, 1, 1.
    # The states of rows 0 and 1 differ along the second axis alone, that of row 2 from both along the first.
    hidden = torch.tensor([[0.0, 0.0], [0.0, 1.0], [3.0, 0.5]])
    rollouts = Rollouts(rewards=torch.tensor([0.0, 1, 100]), groups=torch.zeros(3, dtype=torch.long), hidden=hidden)
    along = {}
    for margins in ("rewards", "ranks"):
        curator = GeoAlign(projector=None, min_scores=2, margins=margins)
        curator.curate(rollouts)
        along[margins] = curator.state_dict()["consensus"][0]["prototype"]
    # Directions (3, .5), (3, -.5) of length 3.041, and (0, 1).
    by_rewards = torch.tensor([199 * 3, 0.5 * (100 - 99)]) / 3.0414 + torch.tensor([0.0, 1])
    by_ranks = torch.tensor([3 * 3, 0.5 * (2 - 1)]) / 3.0414 + torch.tensor([0.0, 1])
    assert along["rewards"].tolist() == pytest.approx((by_rewards / by_rewards.norm()).tolist(), abs=1e-4)
    assert along["ranks"].tolist() == pytest.approx((by_ranks / by_ranks.norm()).tolist(), abs=1e-4)


def test_ranks_of_binary_rewards_change_nothing():
    rollouts = planted().rollouts
    plain, ranked = (curate(rollouts, projector=SMALL, margins=margins) for margins in ("rewards", "ranks"))
    assert torch.equal(plain.scores, ranked.scores)


def test_ranks_without_weights_are_refused():
    with pytest.raises(ConfigError, match="margins: expected 'rewards' where margin_weighted_prototype is false"):
        GeoAlign(margins="ranks", margin_weighted_prototype=False)


def halves():
    """A batch in two: 4 and 44 groups of the same planted direction."""
    rollouts = planted(rewards="continuous", signal=1.0).rollouts
    return [rollouts.take(torch.arange(384)[part]) for part in (slice(32, None), slice(0, 32))]


@pytest.mark.parametrize("scoring", ["in_sample", "cross_fit"])
def test_pooled_pairs_make_the_prototype_of_all_batches(scoring):
    large, small = halves()
    settings = {"projector": None, "scoring": scoring, "min_scores": 2}

    def prototypes(*batches, **more):
        curator = GeoAlign(**settings, **more)
        for batch in batches:
            curator.curate(batch, generator=torch.Generator().manual_seed(0))
        return torch.stack([each["prototype"] for each in curator.state_dict()["consensus"]])

    fresh, pooled = prototypes(small), prototypes(large, small, pooled=1, decay=1.0)
    assert not torch.allclose(fresh, pooled, atol=0.05)
    if scoring == "in_sample":
        # Without decay, that of one batch with all groups; the weights are relative to each batch's largest margin.
        whole = GeoAlign(**settings, margin_weighted_prototype=False)
        whole.curate(planted(rewards="continuous", signal=1.0).rollouts)
        equal = prototypes(large, small, pooled=1, decay=1.0, margin_weighted_prototype=False)
        torch.testing.assert_close(whole.state_dict()["consensus"][0]["prototype"], equal[0], atol=1e-5, rtol=1e-4)
    # One batch is kept: two batches later the large one is forgotten.
    torch.testing.assert_close(
        prototypes(large, small, small, pooled=1), prototypes(small, small, pooled=1), atol=1e-5, rtol=1e-4
    )


def test_the_projector_learns_from_pooled_pairs_too():
    large, small = halves()
    curators = [GeoAlign(projector=SMALL, min_scores=2, pooled=pooled) for pooled in (0, 1)]
    weights = []
    for curator in curators:
        for batch in (large, small):
            metrics = curator.curate(batch, generator=torch.Generator().manual_seed(0)).metrics
        assert metrics["pairs"] == 4 * 28  # those of its own batch are scored, whatever it learns from
        weights.append(curator.state_dict()["consensus"][0]["projector"]["linears.0.weight"])
    assert not torch.equal(*weights)


def test_pooled_pairs_come_along_bit_for_bit(tmp_path):
    large, small = halves()
    settings = {"projector": SMALL, "pooled": 2, "margins": "ranks", "scoring": "cross_fit", "signed": True}

    def session():
        return CurationSession(GeoAlign(**settings), seed=0)

    whole = session()
    for batch in (large, small):
        whole.curate(batch)
    whole.save(tmp_path / "state.safetensors")
    resumed = session()
    resumed.load(tmp_path / "state.safetensors", setting="resume", otherwise="start anew")
    forgetful = session()
    forgetful.load(tmp_path / "state.safetensors", setting="resume", otherwise="start anew")
    forgetful.curator._pool.load([])
    scores = whole.curate(small).scores
    assert torch.equal(scores, resumed.curate(small).scores)
    assert not torch.equal(scores, forgetful.curate(small).scores)
    with pytest.raises(ConfigError, match="pooled: expected a state of at most 1 earlier batches, got 2"):
        GeoAlign(**{**settings, "pooled": 1}).load_state_dict(whole.curator.state_dict())


def test_a_state_of_an_earlier_version_has_no_pool():
    _, small = halves()
    curator = GeoAlign(projector=None, min_scores=2)
    curator.curate(small)
    state = curator.state_dict()
    assert state.pop("pool") == []
    GeoAlign(projector=None, min_scores=2, pooled=3).load_state_dict(state)
