import pytest
import torch

from geoalign import group_advantages
from geoalign.errors import InputError

BINARY = [0.0, 1, 1, 0, 1, 0, 0, 0]
CONTINUOUS = [0.1, 0.9, 0.5, 0.3, 0.7, 0.2, 0.8, 0.4]


def advantages(rewards, groups=None, **kwargs):
    groups = torch.zeros(len(rewards), dtype=torch.long) if groups is None else torch.tensor(groups)
    return group_advantages(torch.tensor(rewards), groups, **kwargs).tolist()


@pytest.mark.parametrize(
    ("rewards", "expected", "options"),
    [
        (BINARY, [1.207612 if reward else -0.724567 for reward in BINARY], {}),
        (CONTINUOUS, [-1.336146, 1.422348, 0.043101, -0.646522, 0.732725, -0.991334, 1.077537, -0.301710], {}),
        # +-0.5 / (0.707107 + 1e-6) = +-0.707106; 0.25 / (0.5 + 1e-6).
        ([0.0, 1.0], [-0.707106, 0.707106], {}),
        ([1.0, 1.0, 1.0, 0.0], [0.499999] * 3 + [-1.499997], {}),
        ([0.0, float("nan"), 1.0], [-0.707106, 0.0, 0.707106], {}),
        (BINARY, [0.625 if reward else -0.375 for reward in BINARY], {"scale": "none"}),
        ([], [], {}),
    ],
)
def test_by_hand(rewards, expected, options):
    assert advantages(rewards, **options) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("rewards", [[0.5] * 8, [0.1] * 3, [7.0]])
def test_equal_rewards_and_single_rows_are_exactly_zero(rewards):
    assert advantages(rewards) == [0.0] * len(rewards)


# Mean 0.75, standard deviation sqrt((0.25^2 + 1.75^2 + 0.75^2 + 2.25^2) / 3) = 1.7078.
SPREAD = [1.0, -1.0, 0.0, 3.0]
OF_SPREAD = [0.146385, -1.024695, -0.439155, 1.317465]


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1e20, "float32"), (1e38, "float32"), (1e10, "float32"), (1e200, "float64"), (5e307, "float64")],
)
def test_rewards_of_any_size_have_advantages(size, dtype):
    rewards = torch.tensor(SPREAD, dtype=torch.float64).mul(size).to(getattr(torch, dtype))
    groups = torch.zeros(4, dtype=torch.long)
    assert group_advantages(rewards, groups).tolist() == pytest.approx(OF_SPREAD, abs=2e-6)
    # r - 0.75 of the size, whose sum of squares has no float.
    centred = group_advantages(rewards, groups, scale="none").double() / size
    assert centred.tolist() == pytest.approx([0.25, -1.75, -0.75, 2.25], rel=1e-6)


def test_a_sum_of_rewards_may_have_no_float():
    # Mean 1.7e38: the sum of the three, 5.1e38, is beyond float32.
    values = advantages([3.4e38, 3.4e38, -1.7e38], scale="none")
    assert values == pytest.approx([1.7e38, 1.7e38, -3.4e38], rel=1e-6)


def test_eps_is_in_the_rewards_own_units():
    # A deviation of 1.7e-30 is nothing beside eps = 1e-6: r - mean over eps.
    values = advantages([each * 1e-30 for each in SPREAD])
    assert values == pytest.approx([0.25e-24, -1.75e-24, -0.75e-24, 2.25e-24], rel=1e-5)


def test_rewards_that_differ_by_rounding_have_one_advantage():
    sums = torch.tensor([0.1, 0.7, 0.4, 0.2]) + torch.tensor([0.6, 0.0, 0.3, 0.5])
    assert advantages(sums.tolist()) == [0.0] * 4
    beside = advantages([*sums.tolist(), 0.2])
    assert len(set(beside)) == 2
    assert beside[4] < 0 < beside[0]


def test_groups_in_any_order_and_weights():
    # Either group is 0 and 1 beside its mean: +-0.707106 as above, times the row's weight.
    weights = torch.tensor([1.0, 0.0, 2.0, 1.0])
    values = advantages([0.0, 5.0, 1.0, 6.0], groups=[4, -1, 4, -1], weights=weights)
    assert values == pytest.approx([-0.707106, 0.0, 1.414212, 0.707106], abs=1e-5)


def test_half_precision_is_computed_in_float32():
    values = group_advantages(torch.tensor([0.0, 1.0], dtype=torch.bfloat16), torch.zeros(2, dtype=torch.int))
    assert values.dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": torch.zeros(3, dtype=torch.long)}, "groups: expected shape"),
        ({"weights": torch.ones(1)}, "weights: expected shape"),
        ({"scale": "batch"}, "scale: expected 'std' or 'none', got 'batch'"),
    ],
)
def test_bad_input(changes, message, unchecked_shapes):
    arguments = {"rewards": torch.zeros(2), "groups": torch.zeros(2, dtype=torch.long), **changes}
    with pytest.raises(InputError, match=message):
        group_advantages(arguments.pop("rewards"), arguments.pop("groups"), **arguments)
