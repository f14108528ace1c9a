"""Rewards of a group that differ by rounding only are equal rewards."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from geoalign.method.groups import canonical_order
from geoalign.method.pairs import preference_pairs
from geoalign.method.ties import power_of_two, tied_rewards

# One reward as four sums, in float32: 0.1 + 0.6, 0.7 + 0.0, 0.4 + 0.3, 0.2 + 0.5.
SUMS = torch.tensor([0.1, 0.7, 0.4, 0.2]) + torch.tensor([0.6, 0.0, 0.3, 0.5])
EPS = torch.finfo(torch.float32).eps


def tied(rewards, groups=None, dtype=torch.float32):
    rewards = torch.as_tensor(rewards, dtype=dtype)
    return tied_rewards(rewards, torch.zeros(len(rewards), dtype=torch.long) if groups is None else groups)


def levels(rewards, **options):
    """How many rewards are told apart."""
    found = tied(rewards, **options)
    return len(found[~found.isnan()].unique())


def pairs_of(rewards, groups):
    rows = canonical_order(rewards, groups)
    return preference_pairs(rewards[rows.order], rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sixteen_groups_of_one_sum_form_no_pair(dtype):
    """In float64, too, where a file or a cast brought the float32 numbers."""
    assert len(SUMS.unique()) == 2
    rewards = SUMS.repeat(16).to(dtype)
    assert len(pairs_of(rewards, torch.arange(16).repeat_interleave(4))) == 0


def test_sums_in_double_precision_tie():
    sums = [0.1 + 0.6, 0.7, 0.4 + 0.3, 0.2 + 0.5, 0.1 + 0.2 + 0.4]
    assert len(set(sums)) > 1
    assert levels(sums, dtype=torch.float64) == 1


@pytest.mark.parametrize("weights", [[0.5, 0.3, 0.2], [1.0, -0.5, 0.25, 0.1, 0.7], [0.1] * 10])
def test_weighted_sums_in_any_order_tie(weights):
    parts = torch.tensor(weights)
    generator = torch.Generator().manual_seed(0)
    sums = []
    for _ in range(200):
        total = torch.zeros(())
        for index in torch.randperm(len(parts), generator=generator).tolist():
            total = total + parts[index]
        sums.append(total)
    assert levels(torch.stack(sums)) == 1


@pytest.mark.parametrize(
    "rewards",
    [
        [1e6, 1e6 + 1],
        [0.0, 1.0, 0.5],
        [1.0, 1 + 10 * EPS],
        [-3.0, 3.0],
        [1e-30, 2e-30, 0.0],
        [3e38, -3e38],
        [1.0, 0.9999],
    ],
)
def test_real_differences_stay(rewards):
    rewards = torch.tensor(rewards)
    assert torch.equal(tied(rewards), rewards)


def test_doubles_that_no_float32_holds_are_told_apart_finely():
    assert levels([1.0, 1 + 1e-9], dtype=torch.float64) == 2
    assert levels([1.0, 1 + 4e-16], dtype=torch.float64) == 1


def test_a_chain_of_near_equal_rewards_is_one_level():
    chain = [1 + 6 * EPS * step for step in range(10)]
    assert levels(chain) == 1
    assert levels([*chain, chain[-1] + 20 * EPS]) == 2


def test_every_group_has_its_own_measure():
    """1e6 in one group makes no tie in another; the lowest of a level stands for it."""
    rewards = torch.tensor([1e6, 1e6 + 0.1, 1e-3, 2e-3, math.nan, 7.0])
    groups = torch.tensor([4, 4, -1, -1, 4, 9])
    found = tied(rewards, groups=groups)
    expected = torch.tensor([1e6, 1e6, 1e-3, 2e-3, math.nan, 7.0])
    assert torch.equal(found.nan_to_num(-1), expected.nan_to_num(-1))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_exact_rewards_keep_every_bit_and_order_does_not_matter(data):
    count = data.draw(st.integers(0, 20))
    exact = st.sampled_from([0.0, 0.25, 1.0, -1.0, 3.0, float("nan")])
    rewards = torch.tensor(data.draw(st.lists(exact, min_size=count, max_size=count)))
    ids = data.draw(st.lists(st.integers(-2, 2), min_size=count, max_size=count))
    groups = torch.tensor(ids, dtype=torch.long)
    assert torch.equal(tied(rewards, groups=groups).nan_to_num(-9), rewards.nan_to_num(-9))
    rounding = EPS * torch.randint(-1, 2, (count,), generator=torch.Generator().manual_seed(count))
    noisy = rewards * (1 + rounding)
    found = tied(noisy, groups=groups)
    again = tied(found, groups=groups)
    assert torch.equal(again.nan_to_num(-9), found.nan_to_num(-9))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    mixed = tied(noisy[order], groups=groups[order])
    assert torch.equal(mixed.nan_to_num(-9), found[order].nan_to_num(-9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_powers_of_two(dtype):
    sizes = torch.tensor([1.0, 1.9, 2.0, 0.75, 3e38, 1e-30], dtype=dtype)
    expected = [2.0 ** math.floor(math.log2(size)) for size in sizes.tolist()]
    assert power_of_two(sizes).tolist() == expected
    assert power_of_two(torch.zeros(1, dtype=dtype)).tolist() == [torch.finfo(dtype).tiny]
