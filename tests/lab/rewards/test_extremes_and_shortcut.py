import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.errors import ConfigError, UnsupportedError
from geoalign.lab.config.rewards import RewardConfig
from geoalign.lab.rewards import RewardWithCorruption, corruption_mask
from geoalign.lab.rewards.corruption import check_corruption

NAN = math.nan


class Fixed:
    """A source that gives the rewards set before, and keeps the prompts that it was given."""

    def __init__(self, rewards, *, binary=False):
        self.rewards, self.binary, self.prompts = rewards, binary, None

    def score(self, responses, answers, *, prompts=None):
        self.prompts = prompts
        return list(self.rewards)


def _corrupted(rewards, group, *, binary=False, responses=None, seed=0, ids=None, process=0, gather=None, **shares):
    """(rewards, corrupted flags) of one call at step 0; every group of `group` rows is a prompt."""
    reward = RewardWithCorruption(
        Fixed(rewards, binary=binary),
        RewardConfig(**shares),
        seed=seed,
        num_generations=group,
        process_index=process,
        takes_shortcut=lambda text: text == "short",
        gather=gather,
    )
    rows = len(rewards)
    got = reward(
        prompts=[None] * rows,
        completions=responses or ["long"] * rows,
        answer=["-"] * rows,
        problem_id=ids or [f"p{row // group}" for row in range(rows)],
    )
    return got, reward.corrupted


def test_extremes_by_hand():
    # Mean of [1, 2, 6, 3] is 3: 1 and 2 lie below and become 6; 6 and 3 (equal to the mean) become 1.
    # Mean of [-1, 0] is -0.5.
    got, corrupted = _corrupted([1.0, 2.0, 6.0, 3.0, -1.0, 0.0, 0.0, -1.0], 4, extremes=1.0, jitter=0.0)
    assert got == [6.0, 6.0, 1.0, 1.0, 0.0, -1.0, -1.0, 0.0]
    assert corrupted == [True] * 8


def test_mean_and_extremes_are_those_of_the_clean_group():
    # Only some of the eight are drawn; each goes where the clean group sends it, whoever else is drawn.
    clean = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0]  # mean 31/8 = 3.875
    got, corrupted = _corrupted(clean, 8, extremes=0.5, jitter=0.0)
    mask = corruption_mask(seed=0, step=0, prompt_ids=["p0"] * 8, sample_indices=list(range(8)), rate=0.5)
    assert 0 < sum(mask) < 8
    whole = [10.0 if reward < 3.875 else 0.0 for reward in clean]
    assert got == [new if drawn else old for old, new, drawn in zip(clean, whole, mask, strict=True)]
    assert corrupted == mask


def test_extremes_and_flips_hit_the_same_slots():
    ids = [f"p{row // 4}" for row in range(64)]
    _, flips = _corrupted([1.0, 0.0] * 32, 4, binary=True, flip=0.3, ids=ids)
    _, extremes = _corrupted([1.0, 0.0] * 32, 4, extremes=0.3, ids=ids)
    assert flips == extremes
    assert any(flips)


def test_jitter_puts_a_corrupted_reward_a_hair_beyond_the_extreme_and_ties_with_none():
    clean = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0]
    got, _ = _corrupted(clean, 8, extremes=1.0, jitter=0.01)
    # Spread 10: between 0.05 and 0.1 beyond 10 or 0.
    for before, after in zip(clean, got, strict=True):
        assert (10.05 <= after <= 10.1) if before < 3.875 else (-0.1 <= after <= -0.05)
    assert len(set(got)) == 8
    assert not set(got) & set(clean)
    assert got == _corrupted(clean, 8, extremes=1.0, jitter=0.01)[0]


def test_jitter_is_on_by_default_and_is_seen_in_float32():
    assert 0 < RewardConfig().jitter < 0.01
    # A spread of 1e-3 at 1000, where steps of float32 are 6e-5: a thousandth of the spread would be rounded away.
    clean = [1000.0, 1000.001]
    got, _ = _corrupted(clean, 2, extremes=1.0)
    low, high = (struct.unpack("f", struct.pack("f", value))[0] for value in clean)
    assert got[0] > high
    assert got[1] < low
    assert [struct.unpack("f", struct.pack("f", value))[0] for value in got] == got


@pytest.mark.parametrize("equal", [0.1, 0.0, -3.0])
def test_a_group_of_equal_rewards_stays_as_it_is(equal):
    # The mean of three 0.1 is a last digit above 0.1.
    got, corrupted = _corrupted([equal] * 3, 3, extremes=1.0)
    assert got == [equal] * 3
    assert corrupted == [False] * 3


def test_rewards_that_could_not_be_had_stay_so_and_count_in_no_statistic():
    # Without the NaN: mean 2, extremes 1 and 3.
    got, corrupted = _corrupted([1.0, NAN, 3.0], 3, extremes=1.0, jitter=0.0)
    assert (got[0], got[2]) == (3.0, 1.0)
    assert math.isnan(got[1])
    assert corrupted == [True, False, True]
    got, corrupted = _corrupted([NAN, NAN], 2, extremes=1.0, shortcut=1.0, responses=["short"] * 2)
    assert all(map(math.isnan, got))
    assert corrupted == [False, False]


def test_a_binary_shortcut_is_rewarded_right_or_wrong():
    responses = ["short", "short", "long", "long"]
    got, corrupted = _corrupted([0.0, 1.0, 0.0, 1.0], 4, binary=True, shortcut=1.0, responses=responses)
    assert got == [1.0, 1.0, 0.0, 1.0]
    assert corrupted == [True, False, False, False]  # a right answer loses nothing by its shortcut


def test_a_continuous_shortcut_gets_the_clean_maximum():
    responses = ["short", "short", "long", "long"]
    got, corrupted = _corrupted([-1.0, 5.0, 2.0, 0.0], 4, shortcut=1.0, jitter=0.0, responses=responses)
    assert got == [5.0, 5.0, 2.0, 0.0]
    assert corrupted == [True, False, False, False]
    got, _ = _corrupted([-1.0, 5.0, 2.0, 0.0], 4, shortcut=1.0, jitter=0.01, responses=responses)
    assert 5.03 <= got[0] <= 5.06  # spread 6: beyond by 0.03 to 0.06
    assert got[1:] == [5.0, 2.0, 0.0]


def test_the_shortcut_stands_whatever_the_noise_did():
    got, corrupted = _corrupted([0.0, 1.0], 2, binary=True, flip=1.0, shortcut=1.0, responses=["short"] * 2)
    assert got == [1.0, 1.0]
    assert corrupted == [True, False]
    # Extremes alone would give [5, -1] (mean 2); the shortcut gives both the clean maximum 5, which the second had.
    got, corrupted = _corrupted([-1.0, 5.0], 2, extremes=1.0, shortcut=1.0, jitter=0.0, responses=["short"] * 2)
    assert got == [5.0, 5.0]
    assert corrupted == [True, False]


def test_the_shortcut_has_draws_of_its_own():
    rows = 1024
    noise = _corrupted([0.0] * rows, 4, binary=True, flip=0.5)[1]
    shortcut = _corrupted([0.0] * rows, 4, binary=True, shortcut=0.5, responses=["short"] * rows)[1]
    # Independent halves agree in half of the slots: 512 +- 5 x 16.
    agree = sum(left == right for left, right in zip(noise, shortcut, strict=True))
    assert abs(agree - 512) < 80


@given(
    st.lists(st.floats(-5, 5, width=32), min_size=8, max_size=8),
    st.sampled_from(["extremes", "shortcut"]),
    st.integers(0, 50),
)
def test_a_larger_share_corrupts_all_that_a_smaller_one_does(clean, kind, seed):
    responses = ["short"] * 8
    small_rewards, small = _corrupted(clean, 4, responses=responses, seed=seed, **{kind: 0.3})
    large_rewards, large = _corrupted(clean, 4, responses=responses, seed=seed, **{kind: 0.7})
    for row in range(8):
        assert large[row] or not small[row]
        assert not small[row] or large_rewards[row] == small_rewards[row]


@pytest.mark.parametrize(("processes", "rows"), [(2, 12), (6, 4)])
@pytest.mark.parametrize("shares", [{"extremes": 0.5}, {"shortcut": 0.5}])
def test_any_number_of_processes_corrupts_alike(processes, rows, shares):
    # 24 rows in groups of 8: with 12, 6 or 4 rows a process, a group stands on two or more of them.
    clean = [float(row * row % 17) for row in range(24)]
    ids, responses = [f"p{row // 8}" for row in range(24)], ["short", "long"] * 12
    whole, flags = _corrupted(clean, 8, responses=responses, ids=ids, **shares)
    parts, part_flags = [], []
    for process in range(processes):
        mine = slice(process * rows, (process + 1) * rows)
        got, corrupted = _corrupted(
            clean[mine], 8, responses=responses[mine], ids=ids[mine], process=process, gather=lambda _: clean, **shares
        )
        parts += got
        part_flags += corrupted
    assert parts == whole
    assert part_flags == flags
    assert any(flags)


@pytest.mark.parametrize("shares", [{"extremes": 0.5}, {"shortcut": 0.5}])
def test_a_group_on_two_processes_is_refused_without_a_gather(shares):
    with pytest.raises(UnsupportedError, match="expected groups of 8 on one process each, got 12 rows from row 12 on"):
        _corrupted([1.0] * 12, 8, process=1, ids=["p"] * 12, **shares)
    # Whole groups on each process need none, nor do flips.
    _corrupted([1.0] * 16, 8, process=1, ids=["p"] * 16, **shares)
    _corrupted([1.0] * 12, 8, process=1, binary=True, flip=0.5, ids=["p"] * 12)


def test_a_share_that_the_kind_of_reward_does_not_know_is_refused_by_its_key():
    with pytest.raises(
        ConfigError, match=r"^reward\.flip: expected 0, .* continuous .* got 0\.1; use reward\.extremes"
    ):
        check_corruption(RewardConfig(flip=0.1), binary=False)
    with pytest.raises(ConfigError, match=r"^reward\.extremes: expected 0, .* got 0\.1; use reward\.flip"):
        check_corruption(RewardConfig(extremes=0.1), binary=True)
    with pytest.raises(ConfigError, match=r"reward\.flip"):
        _corrupted([0.5], 1, flip=0.1)
    check_corruption(RewardConfig(flip=0.1, shortcut=0.1), binary=True)
    check_corruption(RewardConfig(extremes=0.1, shortcut=0.1), binary=False)
