import math
import struct
from types import SimpleNamespace

import pytest

from geoalign.errors import ConfigError, InputError
from geoalign.lab.rewards.corruption import Draws, RewardWithCorruption
from geoalign.lab.rewards.settings import RewardConfig

NAN = math.nan


class Fixed:
    """A source that gives the rewards set before."""

    __name__ = "fixed"

    def __init__(self, rewards, *, binary):
        self.rewards = rewards
        self.binary = binary

    def score(self, responses, answers, *, prompts=None):
        assert len(responses) == len(answers)
        return list(self.rewards)


def corrupted(rewards, group, *, binary=False, responses=None, seed=0, step=0, ids=None, log=None, **more):
    """(rewards, corrupted flags) of one call; every group of `group` rows is a prompt."""
    processes = {name: more.pop(name) for name in ("process_index", "gather") if name in more}
    reward = RewardWithCorruption(
        Fixed(rewards, binary=binary),
        RewardConfig(**more),
        seed=seed,
        num_generations=group,
        takes_shortcut=lambda text: text == "short",
        **processes,
    )
    rows = len(rewards)
    got = reward(
        prompts=[None] * rows,
        completions=responses or ["long"] * rows,
        completion_ids=[[1]] * rows,
        answer=["-"] * rows,
        problem_id=ids or [f"p{row // group}" for row in range(rows)],
        trainer_state=SimpleNamespace(global_step=step),
        log_extra=log,
    )
    assert [math.isnan(value) for value in reward.true_rewards] == [math.isnan(value) for value in rewards]
    assert reward.__name__ == "fixed"
    return got, reward.corrupted


# Which rollouts are drawn.


def keys(prompts=64, samples=16):
    ids = [f"p{prompt}" for prompt in range(prompts) for _ in range(samples)]
    return {"prompt_ids": ids, "samples": list(range(samples)) * prompts}


def mask(seed=0, step=0, rate=0.05):
    return Draws(seed=seed, step=step, **keys()).below(rate)


def test_draws_are_independent_and_as_many_as_the_rate_says():
    for rate in (0.05, 0.5):
        count = sum(sum(mask(step=step, rate=rate)) for step in range(20))
        # 20 x 64 x 16 = 20,480 independent draws; five standard deviations of the binomial.
        deviation = math.sqrt(20_480 * rate * (1 - rate))
        assert abs(count - 20_480 * rate) < 5 * deviation


def test_step_seed_prompt_and_sample_each_change_the_draws():
    base = mask(rate=0.5)
    assert mask(rate=0.5) == base
    assert mask(rate=0.5, step=1) != base
    assert mask(rate=0.5, seed=1) != base
    ids = ["a"] * 8 + ["b"] * 8
    samples = list(range(8)) * 2
    drawn = Draws(seed=7, step=3, prompt_ids=ids, samples=samples).below(0.5)
    # The same on every machine and in every version.
    assert "".join("01"[flip] for flip in drawn) == "0110110010110001"


def fixed(rate, *, prompts=200, samples=16, step=0):
    return Draws(seed=0, step=step, **keys(prompts, samples)).of_each_prompt(rate, samples)


def counts(drawn, samples=16):
    return [sum(drawn[start : start + samples]) for start in range(0, len(drawn), samples)]


def test_a_fixed_share_is_that_of_every_prompt():
    # 0.25 x 16 = 4 of each; 0.05 x 16 = 0.8: one of four fifths of the prompts and none of the others; 0.7 x 10 = 7,
    # although the product of the two floats is not.
    assert set(counts(fixed(0.25))) == {4}
    found = counts(fixed(0.05, prompts=1000))
    assert set(found) == {0, 1}
    assert abs(sum(found) - 800) < 5 * math.sqrt(1000 * 0.8 * 0.2)
    assert set(counts(fixed(0.7, samples=10), 10)) == {7}
    assert not any(fixed(0.0))
    assert all(fixed(1.0))
    # A slice of the rows is drawn as the whole is.
    some = Draws(seed=0, step=0, prompt_ids=["p0", "p0", "p1", "p1"], samples=[14, 15, 0, 1])
    assert some.of_each_prompt(0.25, 16) == fixed(0.25)[14:18]


def test_the_shortcut_has_draws_of_its_own_and_extremes_those_of_flips():
    rows = 1024
    noise = corrupted([0.0] * rows, 4, binary=True, flip=0.5)[1]
    shortcut = corrupted([0.0] * rows, 4, binary=True, shortcut=0.5, responses=["short"] * rows)[1]
    # Independent halves agree in half of the rollouts: 512 +- 5 x 16.
    agree = sum(left == right for left, right in zip(noise, shortcut, strict=True))
    assert abs(agree - 512) < 80
    _, flips = corrupted([1.0, 0.0] * 32, 4, binary=True, flip=0.3)
    _, extremes = corrupted([1.0, 0.0] * 32, 4, extremes=0.3)
    assert flips == extremes
    assert any(flips)


# What becomes of them.


def test_flips_turn_ones_into_zeros_and_back():
    scores = [1.0, 0.0] * 16
    logged = {}
    got, flags = corrupted(scores, 8, binary=True, seed=1, step=3, flip=0.5, log=logged.__setitem__)
    drawn = Draws(seed=1, step=3, **keys(prompts=4, samples=8)).below(0.5)
    assert 0 < sum(drawn) < 32
    assert got == [1 - score if flip else score for score, flip in zip(scores, drawn, strict=True)]
    assert flags == drawn
    assert logged == {"true_reward": scores, "corrupted": drawn}
    with pytest.raises(InputError, match=r"rewards: expected 0 or 1 to flip, got 0\.3 in row 1"):
        corrupted([0.0, 0.3], 2, binary=True, flip=1.0)


def test_extremes_by_hand():
    # Mean of [1, 2, 6, 3] is 3: 1 and 2, below it, become 6; 6 and 3, the mean, become 1. Mean of [-1, 0] is -0.5.
    two_groups = [1.0, 2.0, 6.0, 3.0, -1.0, 0.0, 0.0, -1.0]
    got, flags = corrupted(two_groups, 4, extremes=1.0, jitter=0.0)
    assert got == [6.0, 6.0, 1.0, 1.0, 0.0, -1.0, -1.0, 0.0]
    assert flags == [True] * 8
    # Only some of eight are drawn; each goes where the clean group (mean 31/8) sends it, whoever else is drawn.
    clean = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0]
    got, flags = corrupted(clean, 8, extremes=0.5, jitter=0.0)
    assert 0 < sum(flags) < 8
    whole = [10.0 if reward < 3.875 else 0.0 for reward in clean]
    assert got == [new if hit else old for old, new, hit in zip(clean, whole, flags, strict=True)]


def test_jitter_puts_a_corrupted_reward_a_hair_beyond_the_extreme_and_ties_with_none():
    clean = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0]
    got, _ = corrupted(clean, 8, extremes=1.0, jitter=0.01)
    # Spread 10: between 0.05 and 0.1 beyond 10 or 0.
    for before, after in zip(clean, got, strict=True):
        assert (10.05 <= after <= 10.1) if before < 3.875 else (-0.1 <= after <= -0.05)
    assert len({*got, *clean}) == 16
    # By default too, and seen in float32: a spread of 1e-3 at 1000, where steps are 6e-5.
    low, high = 1000.0, 1000.001
    got, _ = corrupted([low, high], 2, extremes=1.0)
    assert got[0] > in_float32(high)
    assert got[1] < in_float32(low)
    assert [in_float32(value) for value in got] == got


def in_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def test_rewards_that_could_not_be_had_stay_so_and_count_in_no_statistic():
    # Without the NaN: mean 2, extremes 1 and 3.
    got, flags = corrupted([1.0, NAN, 3.0], 3, extremes=1.0, jitter=0.0)
    assert (got[0], got[2]) == (3.0, 1.0)
    assert math.isnan(got[1])
    assert flags == [True, False, True]
    # A group of equal rewards stays as it is: the mean of three 0.1 is a last digit above 0.1.
    assert corrupted([0.1] * 3, 3, extremes=1.0) == ([0.1] * 3, [False] * 3)
    got, flags = corrupted([NAN, NAN], 2, extremes=1.0, shortcut=1.0, responses=["short"] * 2)
    assert all(map(math.isnan, got))
    assert flags == [False, False]
    got, flags = corrupted([NAN, 1.0], 2, binary=True, flip=1.0)
    assert math.isnan(got[0])
    assert (got[1], flags) == (0.0, [False, True])


@pytest.mark.parametrize(
    ("clean", "shares", "expected", "flags"),
    [
        # A right answer loses nothing by its shortcut.
        ([0.0, 1.0, 0.0, 1.0], {"binary": True, "shortcut": 1.0}, [1.0, 1.0, 0.0, 1.0], [True, False, False, False]),
        ([-1.0, 5.0, 2.0, 0.0], {"shortcut": 1.0}, [5.0, 5.0, 2.0, 0.0], [True, False, False, False]),
        # It holds whatever the noise did.
        ([0.0, 1.0], {"binary": True, "flip": 1.0, "shortcut": 1.0}, [1.0, 1.0], [True, False]),
        # Extremes alone would give [5, -1] (mean 2); the shortcut gives both the clean maximum 5, which the second had.
        ([-1.0, 5.0], {"extremes": 1.0, "shortcut": 1.0}, [5.0, 5.0], [True, False]),
    ],
)
def test_a_shortcut_is_rewarded_right_or_wrong(clean, shares, expected, flags):
    responses = ["short", "short", "long", "long"][: len(clean)]
    assert corrupted(clean, len(clean), jitter=0.0, responses=responses, **shares) == (expected, flags)


@pytest.mark.parametrize("processes", [2, 6])
@pytest.mark.parametrize("shares", [{"extremes": 0.5}, {"shortcut": 0.5}, {"flip": 0.5, "binary": True}])
def test_any_number_of_processes_corrupts_alike(processes, shares):
    # 24 rows in groups of 8: with 12, 8 or 4 rows a process, a group may stand on two or more of them.
    rows = 24 // processes
    ids = [f"p{row // 8}" for row in range(24)]
    responses = ["short", "long"] * 12
    clean = [1.0] * 24 if "flip" in shares else [float(row**2 % 17) for row in range(24)]
    whole, flags = corrupted(clean, 8, responses=responses, ids=ids, **shares)
    parts = []
    part_flags = []
    for process in range(processes):
        mine = slice(process * rows, (process + 1) * rows)
        mine_alone = {"responses": responses[mine], "ids": ids[mine], "process_index": process}
        got, hit = corrupted(clean[mine], 8, gather=lambda _: clean, **mine_alone, **shares)
        parts += got
        part_flags += hit
    assert (parts, part_flags) == (whole, flags)
    assert any(flags)


def test_a_share_that_the_kind_of_reward_does_not_know_is_refused_by_its_key():
    with pytest.raises(ConfigError, match=r"^reward\.flip: expected 0, .* got 0\.1; use reward\.extremes"):
        corrupted([0.5], 1, flip=0.1)
    with pytest.raises(ConfigError, match=r"^reward\.extremes: expected 0, .* got 0\.1; use reward\.flip"):
        corrupted([0.5], 1, binary=True, extremes=0.1)
