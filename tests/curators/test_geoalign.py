"""GeoAlign itself: each step, strategy, option and degenerate case."""

import math
from dataclasses import replace

import pytest
import torch

from geoalign import GeoAlign, GeoAlignConfig, ProjectorConfig, Rollouts
from geoalign.curators.geoalign import GATE_CALLS
from geoalign.errors import ConfigError, InputError
from geoalign.intervals import clustered_proportion
from geoalign.testing.synthetic import synthetic_rollouts

SMALL = ProjectorConfig(hidden_dim=32, output_dim=16, steps=20)


def geoalign(**changes):
    return GeoAlign(**{"projector": SMALL, "alpha": 0.1, **changes})


def curate(curator, rollouts, seed=0, **kwargs):
    return curator.curate(rollouts, generator=torch.Generator().manual_seed(seed), **kwargs)


def planted(seed=0, groups=24, size=8, d=32, **kwargs):
    return synthetic_rollouts(groups, size, d, seed=seed, **{"signal": 2.0, **kwargs})


def test_replace_puts_a_stable_row_of_the_group_in_the_place():
    rollouts = planted().rollouts
    curation = curate(geoalign(), rollouts)
    moved = curation.replaced
    assert moved.sum() == curation.metrics["replaced"] > 0
    assert torch.equal(moved, curation.anomalous)
    assert torch.equal(rollouts.groups[curation.source], rollouts.groups)
    assert not curation.anomalous[curation.source].any()
    assert curation.weights.eq(1).all()
    assert curation.scores[curation.anomalous].min() > curation.scores[~curation.anomalous].median()


def test_drop_keeps_rows_that_could_not_be_scored():
    rollouts = planted().rollouts
    rewards = rollouts.rewards.clone()
    rewards[3] = math.nan
    curation = curate(geoalign(strategy="drop"), replace(rollouts, rewards=rewards))
    assert curation.anomalous.any()
    assert curation.source.tolist() == (~curation.anomalous).nonzero()[:, 0].tolist()
    place = curation.source.tolist().index(3)
    assert curation.weights[place] == 0
    assert curation.weights.sum() == len(curation.source) - 1


@pytest.mark.parametrize("strategy", ["replace", "zero_weight", "drop", "amplify"])
def test_a_closed_gate_flags_and_changes_nothing(strategy):
    curator = geoalign(consensus_gate=0.95, strategy=strategy)
    first = curate(curator, planted(0).rollouts)
    second = curate(curator, planted(1).rollouts)
    assert first.metrics["gate_closed"] == 1
    assert first.anomalous.any()
    assert first.source.tolist() == list(range(len(first.scores)))
    assert first.weights.eq(1).all()
    assert second.metrics["gate_closed"] == 0
    assert second.metrics["replaced"] > 0 or second.metrics["zero_weighted"] > 0


def test_a_batch_without_new_groups_takes_no_place_in_the_gates_window():
    seen = geoalign(consensus_gate=0.95)
    interrupted = geoalign(consensus_gate=0.95)
    for curator in (seen, interrupted):
        for seed in range(3):
            curate(curator, planted(seed).rollouts, seed=seed)
    rollouts = planted(5).rollouts
    curate(interrupted, rollouts.take(torch.zeros(0, dtype=torch.long)))
    tied = replace(rollouts, rewards=torch.zeros_like(rollouts.rewards))
    curate(interrupted, tied)
    assert interrupted.judged.shape[1] == 0
    assert seen.judged.shape[1] > 0
    one = curate(seen, rollouts).metrics
    other = curate(interrupted, rollouts).metrics
    assert one["pooled_new_group_accuracy"] == other["pooled_new_group_accuracy"]
    assert one["gate_closed"] == other["gate_closed"] == 0


def test_groups_that_differ_by_rounding_are_tied_groups():
    sums = torch.tensor([0.1, 0.7, 0.4, 0.2]) + torch.tensor([0.6, 0.0, 0.3, 0.5])
    hidden = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    given = Rollouts(rewards=sums.repeat(16), groups=torch.arange(16).repeat_interleave(4), hidden=hidden)
    curation = curate(geoalign(), given)
    assert curation.metrics["pairs"] == 0
    assert curation.metrics["tied_groups"] == 16
    assert curation.source.tolist() == list(range(64))
    assert torch.equal(curation.rewards, given.rewards)


def test_margins_beyond_the_largest_float_are_scored():
    rollouts = planted(0).rollouts
    size = 3.4e38 / float(rollouts.rewards.abs().max())
    assert curate(geoalign(), replace(rollouts, rewards=rollouts.rewards * size)).scores.isfinite().all()


@pytest.mark.parametrize("scoring", ["in_sample", "cross_fit"])
def test_gate_acts_where_new_groups_agree_and_only_there(scoring):
    gated = geoalign(scoring=scoring, consensus_gate=0.95)
    free = geoalign(scoring=scoring, consensus_gate=None)
    generator = torch.Generator().manual_seed(0)
    closed = []
    for seed in range(3):
        curation = gated.curate(planted(seed=seed).rollouts, generator=generator)
        closed.append(curation.metrics["gate_closed"])
        assert (curation.metrics["replaced"] > 0) == (curation.metrics["gate_closed"] == 0)
    # In sample the first call has seen no group before; out of sample the folds judge each other at once.
    assert closed == ([1, 0, 0] if scoring == "in_sample" else [0, 0, 0])
    noise = planted(seed=5, signal=0.0, groups=32).rollouts
    assert curate(free, noise).metrics["replaced"] > 0  # without a gate it acts on noise
    fresh = geoalign(scoring=scoring, consensus_gate=0.95)
    for seed in range(3):
        noise = planted(seed=seed, signal=0.0, groups=32).rollouts
        curation = curate(fresh, noise, seed=seed)
        assert curation.metrics["gate_closed"] == 1
        assert curation.metrics["replaced"] == 0
        assert curation.anomalous.any()  # scored and flagged for the logs all the same


def test_cap_and_minimum():
    rollouts = planted(corruption=0.2).rollouts
    free = curate(geoalign(alpha=0.9, max_fraction=None), rollouts)
    capped = curate(geoalign(alpha=0.9, max_fraction=0.05), rollouts)
    assert capped.anomalous.sum() == int(0.05 * len(rollouts)) < free.anomalous.sum()
    assert capped.metrics["suspects"] == free.anomalous.sum()
    # A suspect that the cap spares stays, and is nobody's donor.
    spared = free.anomalous & ~capped.anomalous
    assert spared.any()
    moved = capped.replaced
    assert not free.anomalous[capped.source[moved]].any()
    assert not moved[spared].any()
    few = curate(geoalign(min_scores=len(rollouts) + 1), rollouts)
    assert few.metrics["too_few_scores"] == 1
    assert not few.anomalous.any()


def test_groups_without_a_donor_stay_and_are_counted():
    rollouts = planted().rollouts
    stuck = curate(geoalign(), replace(rollouts, donor_ok=torch.zeros(len(rollouts), dtype=torch.bool)))
    assert stuck.anomalous.any()
    assert not stuck.replaced.any()
    assert stuck.metrics["groups_without_donor"] == len(rollouts.groups[stuck.anomalous].unique())


def test_rows_of_one_response_key_have_no_direction_between_them():
    # The states of one response differ by the rounding of another padding: 6e-3 in bfloat16.
    rollouts = planted().rollouts
    hidden = rollouts.hidden.clone()
    rounding = 6e-3 * torch.randn(8, hidden.shape[1], generator=torch.Generator().manual_seed(0))
    hidden[:8] = hidden[0] + rounding
    keys = torch.arange(len(rollouts))
    keys[:8] = 5
    keys[8] = 5  # the same response to another prompt: no pair anyway
    unknown = Rollouts(rewards=rollouts.rewards, groups=rollouts.groups, hidden=hidden)
    assert curate(geoalign(), unknown).metrics["zero_displacements"] == 0
    curation = curate(geoalign(), replace(unknown, response_keys=keys))
    assert curation.metrics["zero_displacements"] == 28
    assert curation.scores[:8].isnan().all()
    assert not curation.scores[8:].isnan().any()


def test_equal_scores_have_no_spread():
    # One pair a group along the same line: every deviation is 0, every score equal.
    rewards = torch.tensor([0.0, 1.0] * 20)
    hidden = torch.stack([rewards, torch.zeros(40)], dim=1) + 5
    rollouts = Rollouts(rewards=rewards, groups=torch.arange(20).repeat_interleave(2), hidden=hidden)
    curation = curate(GeoAlign(projector=None), rollouts)
    assert curation.metrics["zero_spread"] == 1
    assert curation.metrics["raw_cosine_mean"] == pytest.approx(1)
    assert not curation.anomalous.any()


def test_group_counts():
    rewards = torch.tensor([1.0, 0.0, 2.0, 2.0, 7.0, math.nan, 1.0])
    groups = torch.tensor([0, 0, 1, 1, 2, 3, 3])
    hidden = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    metrics = curate(geoalign(), Rollouts(rewards=rewards, groups=groups, hidden=hidden)).metrics
    # Group 0 has one pair; group 1 is tied; group 2 is single; group 3 has one scored row, so it is neither.
    assert (metrics["pairs"], metrics["scored_groups"], metrics["scored_rollouts"]) == (1, 1, 2)
    assert (metrics["tied_groups"], metrics["single_groups"], metrics["unscored_rewards"]) == (1, 1, 1)


@pytest.mark.parametrize("factor", [7.3, 1e-20, 1e20])
def test_scale_of_the_hidden_states_changes_nothing(factor):
    rollouts = planted().rollouts
    scaled = Rollouts(rewards=rollouts.rewards, groups=rollouts.groups, hidden=rollouts.hidden * factor)
    one = curate(geoalign(), rollouts)
    other = curate(geoalign(), scaled)
    torch.testing.assert_close(one.scores, other.scores, atol=1e-3, rtol=1e-3)
    assert (one.anomalous != other.anomalous).sum() == 0


def test_warm_start_and_new_group_metrics():
    curator = geoalign()
    first = curate(curator, planted(0).rollouts)
    second = curate(curator, planted(1).rollouts)
    assert math.isnan(first.metrics["new_group_accuracy"])
    assert math.isnan(first.metrics["deviation_gap"])
    accuracy = second.metrics["new_group_accuracy"]
    assert 0.5 < second.metrics["new_group_accuracy_low"] < accuracy < second.metrics["new_group_accuracy_high"] <= 1
    assert second.metrics["deviation_gap"] == pytest.approx(
        second.metrics["new_group_deviation"] - first.metrics["train_deviation"]
    )
    cold = geoalign(projector=ProjectorConfig(hidden_dim=32, output_dim=16, steps=20, warm_start=False))
    curate(cold, planted(0).rollouts)
    assert curate(cold, planted(1).rollouts).metrics["new_group_accuracy"] > 0.5
    from_cold = curate(cold, planted(1).rollouts)
    from_warm = curate(curator, planted(1).rollouts)
    assert not torch.equal(from_cold.scores, from_warm.scores)


def test_cross_fit_needs_as_many_groups_as_folds():
    rollouts = planted(groups=1, size=40).rollouts
    curation = curate(geoalign(scoring="cross_fit"), rollouts)
    assert curation.metrics["pairs"] == 780
    assert curation.scores.isnan().all()
    assert not curation.replaced.any()
    assert curation.metrics["too_few_scores"] == 1


def test_cross_fit_trains_its_projector_on_the_other_fold_only(monkeypatch):
    # Folds by even and odd groups. Turning the rewards of group 0 round changes nothing for the other even groups, as
    # their consensus never saw an even group; it does change the odd ones, whose consensus was trained on group 0.
    monkeypatch.setattr(
        "geoalign.method.scoring.fold_of_groups", lambda pairs, groups, folds, draw: torch.arange(groups) % folds
    )
    rollouts = planted().rollouts
    rewards = rollouts.rewards.clone()
    rewards[:8] = -rewards[:8]
    turned = Rollouts(rewards=rewards, groups=rollouts.groups, hidden=rollouts.hidden)
    one = curate(geoalign(scoring="cross_fit"), rollouts)
    other = curate(geoalign(scoring="cross_fit"), turned)
    odd = rollouts.groups % 2 == 1
    other_even = ~odd
    other_even[:8] = False
    assert torch.equal(one.scores[other_even], other.scores[other_even])
    assert not torch.equal(one.scores[odd], other.scores[odd])


def test_details():
    rollouts = planted().rollouts
    curation = curate(geoalign(), rollouts, details=True)
    details = curation.details
    assert len(details.pairs.winner) == curation.metrics["pairs"]
    assert (rollouts.rewards[details.pairs.winner] > rollouts.rewards[details.pairs.loser]).all()
    total = torch.zeros(len(rollouts))
    total.index_add_(0, details.pairs.winner, details.pairs.deviation)
    total.index_add_(0, details.pairs.loser, details.pairs.deviation)
    torch.testing.assert_close(total, curation.scores, atol=1e-4, rtol=1e-4)
    assert details.density.threshold == curation.metrics["threshold"]


def test_the_gate_pools_the_groups_of_the_last_calls():
    curator = geoalign(scoring="cross_fit", projector=None, consensus_gate=0.9)
    for seed in range(GATE_CALLS + 1):
        metrics = curate(curator, planted(seed).rollouts).metrics
    calls = curator.state_dict()["gate"]
    assert len(calls) == GATE_CALLS
    pooled = clustered_proportion(*torch.cat(calls, dim=1).numpy(), level=0.9)
    found = [metrics[f"pooled_new_group_accuracy{end}"] for end in ("", "_low", "_high")]
    assert found == [pooled.estimate, pooled.low, pooled.high]


def test_metrics_are_complete_even_without_pairs():
    full = curate(geoalign(), planted().rollouts).metrics
    tied = Rollouts(rewards=torch.ones(4), groups=torch.zeros(4, dtype=torch.int), hidden=torch.randn(4, 8))
    assert set(curate(geoalign(), tied).metrics) == set(full)


def test_paper_preset():
    maths = GeoAlignConfig.preset("paper", task="math")
    dialogue = GeoAlignConfig.preset("paper", task="dialogue")
    assert (maths.alpha, maths.projector.target_accuracy) == (0.05, 0.95)
    assert (dialogue.alpha, dialogue.projector.target_accuracy) == (0.12, 0.85)
    for config in (maths, dialogue):
        assert config.max_fraction is None
        assert config.min_scores == 2
        assert config.projector.groups_per_step is None
        assert (config.projector.layers, config.projector.steps, config.projector.learning_rate) == (3, 50, 1e-3)
    assert GeoAlignConfig.preset("paper", task="math", alpha=0.07).alpha == 0.07
    # A mapping overrides single values of the projector; a whole configuration, or none, is taken whole.
    kept = GeoAlignConfig.preset("paper", task="math", projector={"layers": 4}).projector
    assert (kept.layers, kept.target_accuracy, kept.groups_per_step) == (4, 0.95, None)
    for whole in (ProjectorConfig(layers=4), None):
        assert GeoAlignConfig.preset("paper", task="math", projector=whole).projector == whole
    with pytest.raises(ConfigError, match="expected 'paper', got 'released'"):
        GeoAlignConfig.preset("released", task="math")
    with pytest.raises(ConfigError, match="task: expected one of"):
        GeoAlignConfig.preset("paper", task="code")


def test_bad_hidden_states():
    good = planted().rollouts
    one_column = replace(good, hidden=good.hidden[:, :1])
    with pytest.raises(InputError, match="at least 2 columns"):
        curate(geoalign(), one_column)
    curator = geoalign()
    curate(curator, good)
    half_of_the_columns = replace(good, hidden=good.hidden[:, :16])
    with pytest.raises(InputError, match="expected 32 columns as in earlier calls, got 16"):
        curate(curator, half_of_the_columns)


def test_two_groups_that_agree_open_no_gate():
    rewards = torch.arange(16) % 4 / 3
    along_the_rewards = rewards[:, None] * torch.ones(4)
    rollouts = Rollouts(rewards=rewards, groups=torch.arange(16) // 4, hidden=along_the_rewards)
    curator = GeoAlign(consensus_gate=0.8, scoring="cross_fit", projector=None)
    metrics = curator.curate(rollouts).metrics
    # The interval alone would open it: at 80% that of two groups without an error lies above one half.
    assert clustered_proportion(*curator.judged.numpy(), level=0.8).low > 0.5
    assert metrics["gate_closed"] == 1


@pytest.mark.parametrize("text", ['"abc"', "[1]", "3"])
def test_a_projector_in_json_is_an_object(text):
    with pytest.raises(ConfigError, match=r"projector.*expected a JSON object"):
        GeoAlign(projector=text)
