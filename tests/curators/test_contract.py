"""One contract for every curator: what any of them may and may not do to a batch."""

import math

import pytest
import torch

from geoalign import CURATORS, Curation, Curator, Rollouts
from geoalign.benchmarks.synthetic import synthetic_rollouts
from geoalign.curators import make_curator
from geoalign.errors import ConfigError, InputError

# Settings that keep the test small; a curator not named here runs at its defaults.
SMALL = {
    "geoalign": {"min_scores": 8, "alpha": 0.3, "projector": {"hidden_dim": 16, "output_dim": 8, "steps": 10}},
    "geoalign_released": {"min_scores": 8, "alpha": 0.3, "min_epochs": 2, "max_epochs": 3, "output_dim": 8},
}
VARIANTS = [(name, {}) for name in CURATORS] + [
    ("geoalign", change)
    for change in (
        {"strategy": "zero_weight"},
        {"strategy": "drop"},
        {"strategy": "amplify"},
        {"aggregation": "mean"},
        {"tail": "first_crossing"},
        {"scoring": "cross_fit"},
        {"projector": None},
        {"projector": None, "scoring": "cross_fit"},
        {"top_m": 2},
        {"margin_weighted_prototype": False},
        {"observe_only": True},
        {"start_step": 1},
    )
]


@pytest.fixture(params=VARIANTS, ids=lambda variant: f"{variant[0]}-{variant[1]}")
def make(request):
    name, changes = request.param
    return lambda: CURATORS[name](**{**SMALL.get(name, {}), **changes})


def batch(seed=0, groups=12, size=6, d=16, **kwargs):
    rollouts = synthetic_rollouts(groups, size, d, seed=seed, **kwargs).rollouts
    rows = len(rollouts)
    return Rollouts(
        rewards=rollouts.rewards,
        groups=rollouts.groups,
        hidden=rollouts.hidden,
        lengths=torch.arange(rows) + 1,
        ids=[f"row {row}" for row in range(rows)],
    )


def curate(curator: Curator, rollouts: Rollouts, seed: int = 0, **kwargs) -> Curation:
    return curator.curate(rollouts, generator=torch.Generator().manual_seed(seed), **kwargs)


def same(one: Curation, other: Curation) -> bool:
    return (
        torch.equal(one.source, other.source)
        and torch.equal(one.rewards, other.rewards)
        and torch.equal(one.weights, other.weights)
        and torch.equal(one.anomalous, other.anomalous)
        and torch.equal(one.scores.nan_to_num(-1), other.scores.nan_to_num(-1))
    )


def test_rows_rewards_and_groups_belong_together(make):
    rollouts = batch()
    curation = curate(make(), rollouts)
    taken = rollouts.take(curation.source)
    if len(curation.source) == len(rollouts):
        assert torch.equal(taken.groups, rollouts.groups)
    assert torch.equal(curation.rewards, taken.rewards)
    assert curation.scores.shape == curation.anomalous.shape == (len(rollouts),)
    assert all(isinstance(value, float) for value in curation.metrics.values())
    assert not curation.anomalous[curation.scores.isnan()].any()


def test_input_is_untouched_and_no_gradient_comes_out(make):
    rollouts = batch()
    hidden = rollouts.hidden.clone().requires_grad_()
    with_gradient = Rollouts(rewards=rollouts.rewards, groups=rollouts.groups, hidden=hidden)
    before = rollouts.rewards.clone()
    curation = curate(make(), with_gradient)
    assert torch.equal(rollouts.rewards, before)
    assert torch.equal(with_gradient.hidden, rollouts.hidden)
    assert hidden.grad is None
    assert not curation.rewards.requires_grad
    assert not curation.scores.requires_grad


def test_same_seed_same_bits(make):
    assert same(curate(make(), batch(), seed=3), curate(make(), batch(), seed=3))


def test_details_do_not_change_the_decision(make):
    assert same(curate(make(), batch(), seed=3), curate(make(), batch(), seed=3, details=True))


def test_global_random_state_is_untouched(make):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    curate(make(), batch())
    assert torch.equal(torch.rand(3), expected)


def test_row_order_changes_nothing(make):
    rollouts = batch()
    order = torch.randperm(len(rollouts), generator=torch.Generator().manual_seed(9))
    straight, mixed = curate(make(), rollouts), curate(make(), rollouts.take(order))
    assert torch.equal(straight.anomalous[order], mixed.anomalous)
    torch.testing.assert_close(straight.scores[order], mixed.scores, equal_nan=True, atol=1e-5, rtol=1e-4)
    # The same rows survive: as rows of the original batch, in any order.
    assert sorted(order[mixed.source].tolist()) == sorted(straight.source.tolist())


def test_group_names_change_nothing_but_draws(make):
    rollouts = batch()
    renamed = Rollouts(rewards=rollouts.rewards, groups=rollouts.groups * 7 - 20, hidden=rollouts.hidden)
    assert same(curate(make(), rollouts), curate(make(), renamed))


def test_degenerate_batches_come_back_unchanged(make):
    hidden = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    for rewards, groups in (
        ([1.0] * 6, [0, 0, 0, 1, 1, 1]),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0, 1, 2, 3, 4, 5]),
        ([math.nan] * 6, [0] * 6),
        ([1.0, math.nan, math.nan, 0.0, math.nan, 2.0], [0, 0, 0, 1, 1, 2]),
    ):
        rollouts = Rollouts(rewards=torch.tensor(rewards), groups=torch.tensor(groups), hidden=hidden)
        curation = curate(make(), rollouts)
        assert curation.source.tolist() == list(range(6))
        assert not curation.anomalous.any()
        assert torch.equal(curation.weights, (~rollouts.rewards.isnan()).float())


def test_empty_batch(make):
    empty = Rollouts(rewards=torch.zeros(0), groups=torch.zeros(0, dtype=torch.long), hidden=torch.zeros(0, 4))
    assert len(curate(make(), empty).source) == 0


def test_nan_rewards_have_weight_zero_and_are_no_donors(make):
    rollouts = batch()
    rewards = rollouts.rewards.clone()
    rewards[::5] = math.nan
    curation = curate(make(), Rollouts(rewards=rewards, groups=rollouts.groups, hidden=rollouts.hidden))
    lost = rewards.isnan()
    assert curation.weights[lost[curation.source]].eq(0).all()
    moved = curation.source != torch.arange(len(curation.source)) if len(curation.source) == len(rewards) else None
    if moved is not None:
        assert not lost[curation.source[moved]].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(make, dtype):
    rollouts = batch()
    low = Rollouts(rewards=rollouts.rewards, groups=rollouts.groups.int(), hidden=rollouts.hidden.to(dtype))
    full = Rollouts(rewards=rollouts.rewards, groups=rollouts.groups, hidden=low.hidden.float())
    assert same(curate(make(), low), curate(make(), full))


def test_a_callers_autocast_and_inference_mode_do_not_matter(make):
    expected = curate(make(), batch())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(expected, curate(make(), batch()))
    with torch.inference_mode():
        assert same(expected, curate(make(), batch()))


def test_a_restored_curator_goes_on_alike(make):
    first, second = make(), make()
    curate(first, batch(seed=0))
    second.load_state_dict(first.state_dict())
    assert same(curate(first, batch(seed=1), seed=5), curate(second, batch(seed=1), seed=5))


def test_foreign_state_is_refused(make):
    with pytest.raises(ConfigError):
        make().load_state_dict({"unknown": 1})


def test_missing_fields_are_named(make):
    curator = make()
    for name in curator.requires:
        bare = Rollouts(rewards=torch.tensor([0.0, 1.0]), groups=torch.tensor([0, 0]))
        with pytest.raises(InputError, match=name):
            curate(curator, bare)


@pytest.mark.parametrize("name", list(CURATORS))
def test_settings_pick_their_curator(name, unchecked_shapes):
    curator_class = CURATORS[name]
    assert type(make_curator(curator_class.config_class())) is curator_class
    with pytest.raises(ConfigError, match="no_such_setting"):
        curator_class(no_such_setting=1)
    with pytest.raises(ConfigError, match="expected a config or keywords"):
        curator_class(curator_class.config_class(), no_such_setting=1)
    with pytest.raises(ConfigError, match="expected a"):
        curator_class(object())


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"geoalign, geoalign_released, grpo.*got 'geo'"):
        CURATORS["geo"]
    assert "geo" not in CURATORS
    assert set(CURATORS) >= {"grpo", "geoalign", "geoalign_released"}


def test_settings_of_no_curator_are_refused():
    with pytest.raises(ConfigError, match="no curator takes settings of type dict"):
        make_curator({})
