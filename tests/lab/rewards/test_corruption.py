import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.errors import InputError
from geoalign.lab.config.rewards import RewardConfig
from geoalign.lab.rewards import RewardWithCorruption, corruption_mask
from geoalign.lab.rewards.slots import fixed_share_mask, uniform


class Fixed:
    """A source that gives the rewards set before."""

    __name__ = "fixed"

    def __init__(self, rewards, *, binary=True):
        self.rewards = rewards
        self.binary = binary

    def score(self, responses, answers, *, prompts=None):
        assert len(responses) == len(answers)
        return list(self.rewards[: len(responses)])


def _mask(seed=0, step=0, prompts=64, samples=16, rate=0.05):
    ids = [f"p{prompt}" for prompt in range(prompts) for _ in range(samples)]
    return corruption_mask(
        seed=seed, step=step, prompt_ids=ids, sample_indices=list(range(samples)) * prompts, rate=rate
    )


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_the_share_of_flips_is_the_rate(rate):
    count = sum(sum(_mask(step=step, rate=rate)) for step in range(20))
    # 20 x 64 x 16 = 20,480 independent draws; five standard deviations of the binomial.
    assert abs(count - 20_480 * rate) < 5 * math.sqrt(20_480 * rate * (1 - rate))


def test_draws_are_independent_between_samples_of_a_prompt():
    # Pairs of neighbours both flipped: probability 0.3^2 = 0.09 if independent; 20 x 64 x 8 = 10,240 pairs.
    both = 0
    for step in range(20):
        mask = _mask(step=step, rate=0.3)
        both += sum(first and second for first, second in zip(mask[::2], mask[1::2], strict=True))
    assert abs(both - 921.6) < 5 * math.sqrt(10_240 * 0.09 * 0.91)


def _fixed(rate, *, prompts=200, samples=16, step=0):
    ids = [f"p{prompt}" for prompt in range(prompts) for _ in range(samples)]
    return fixed_share_mask(
        seed=0, step=step, prompt_ids=ids, sample_indices=list(range(samples)) * prompts, rate=rate, group_size=samples
    )


def _counts(mask, samples=16):
    return [sum(mask[start : start + samples]) for start in range(0, len(mask), samples)]


def test_a_fixed_share_is_that_of_every_prompt():
    # 0.25 x 16 = 4 of each; 0.05 x 16 = 0.8: one of four fifths of the prompts and none of the others; 0.7 x 10 = 7,
    # although the product of the two floats is not.
    assert set(_counts(_fixed(0.25))) == {4}
    counts = _counts(_fixed(0.05, prompts=1000))
    assert set(counts) == {0, 1}
    assert abs(sum(counts) - 800) < 5 * math.sqrt(1000 * 0.8 * 0.2)
    assert set(_counts(_fixed(0.7, samples=10), 10)) == {7}
    assert not any(_fixed(0.0))
    assert all(_fixed(1.0))


def test_a_fixed_share_takes_the_smallest_draws_and_every_sample_alike():
    draws = [uniform(seed=0, step=0, prompt_id="p0", sample=sample) for sample in range(16)]
    chosen = [sample for sample in range(16) if _fixed(0.25, prompts=1)[sample]]
    assert sorted(chosen) == sorted(sorted(range(16), key=draws.__getitem__)[:4])
    masks = [_fixed(0.25, step=step) for step in range(10)]
    # Sample 3 of 2,000 prompts: a quarter of them.
    hits = sum(sum(mask[3::16]) for mask in masks)
    assert abs(hits - 500) < 5 * math.sqrt(2000 * 0.25 * 0.75)


def test_a_fixed_share_is_the_same_for_a_slice_of_the_rows():
    ids = ["a"] * 4 + ["b"] * 4
    whole = fixed_share_mask(seed=0, step=0, prompt_ids=ids, sample_indices=[0, 1, 2, 3] * 2, rate=0.5, group_size=4)
    part = fixed_share_mask(seed=0, step=0, prompt_ids=ids[2:6], sample_indices=[2, 3, 0, 1], rate=0.5, group_size=4)
    assert part == whole[2:6]


def test_step_seed_prompt_and_sample_each_change_the_draws():
    base = _mask(rate=0.5)
    assert _mask(rate=0.5) == base
    assert _mask(rate=0.5, step=1) != base
    assert _mask(rate=0.5, seed=1) != base
    of_prompt = [base[start : start + 16] for start in range(0, len(base), 16)]
    assert of_prompt[0] != of_prompt[1]
    assert len(set(of_prompt[0])) == 2


def test_the_draws_are_the_same_on_every_machine_and_in_every_version():
    mask = corruption_mask(
        seed=7, step=3, prompt_ids=["a"] * 8 + ["b"] * 8, sample_indices=[*range(8), *range(8)], rate=0.5
    )
    assert "".join("01"[flip] for flip in mask) == "0110110010110001"


@given(st.permutations(list(range(24))))
def test_the_order_of_the_rows_changes_nothing(order):
    ids = [f"p{row // 8}" for row in range(24)]
    samples = [row % 8 for row in range(24)]
    mask = corruption_mask(seed=0, step=0, prompt_ids=ids, sample_indices=samples, rate=0.5)
    shuffled = corruption_mask(
        seed=0, step=0, prompt_ids=[ids[row] for row in order], sample_indices=[samples[row] for row in order], rate=0.5
    )
    assert shuffled == [mask[row] for row in order]


def _call(reward, rows, *, ids, step=3, **values):
    return reward(
        prompts=[None] * rows,
        completions=["x"] * rows,
        completion_ids=[[1]] * rows,
        answer=["1"] * rows,
        problem_id=ids,
        trainer_state=SimpleNamespace(global_step=step),
        **values,
    )


def test_flips_turn_ones_into_zeros_and_back_and_the_truth_is_kept():
    scores = [1.0, 0.0] * 16
    ids = [f"p{row // 8}" for row in range(32)]
    reward = RewardWithCorruption(Fixed(scores), RewardConfig(flip=0.5), seed=1, num_generations=8)
    rewards = _call(reward, 32, ids=ids)
    mask = corruption_mask(seed=1, step=3, prompt_ids=ids, sample_indices=[row % 8 for row in range(32)], rate=0.5)
    assert 0 < sum(mask) < 32
    assert rewards == [1 - score if flip else score for score, flip in zip(scores, mask, strict=True)]
    assert reward.true_rewards == scores
    assert reward.corrupted == mask
    assert reward.__name__ == "fixed"


@pytest.mark.parametrize(("processes", "rows"), [(2, 12), (3, 8)])
def test_any_number_of_processes_flips_the_same_slots(processes, rows):
    # 24 rows in groups of 8; with 12, 6 or 4 rows a process, groups begin in one process and end in the next.
    scores, ids = [1.0] * 24, [f"p{row // 8}" for row in range(24)]
    whole = _call(RewardWithCorruption(Fixed(scores), RewardConfig(flip=0.5), seed=0, num_generations=8), 24, ids=ids)
    parts = []
    for process in range(processes):
        reward = RewardWithCorruption(
            Fixed(scores), RewardConfig(flip=0.5), seed=0, num_generations=8, process_index=process
        )
        parts += _call(reward, rows, ids=ids[process * rows : (process + 1) * rows])
    assert parts == whole
    assert set(whole) == {0.0, 1.0}


def test_the_true_reward_and_the_flips_go_into_the_completions_table():
    logged = {}
    reward = RewardWithCorruption(Fixed([1.0] * 8), RewardConfig(flip=1.0), seed=0, num_generations=8)
    _call(reward, 8, ids=["p"] * 8, log_extra=logged.__setitem__)
    assert logged == {"true_reward": [1.0] * 8, "corrupted": [True] * 8}


def test_a_reward_that_could_not_be_had_stays_so_and_counts_as_no_flip():
    reward = RewardWithCorruption(Fixed([math.nan, 1.0]), RewardConfig(flip=1.0), seed=0, num_generations=2)
    first, second = _call(reward, 2, ids=["p", "p"])
    assert math.isnan(first)
    assert second == 0.0
    assert reward.corrupted == [False, True]


def test_a_reward_that_is_not_binary_is_not_flipped_but_refused():
    reward = RewardWithCorruption(Fixed([0.0, 0.3]), RewardConfig(flip=1.0), seed=0, num_generations=2)
    with pytest.raises(InputError, match=r"rewards: expected 0 or 1 to flip, got 0\.3 in row 1"):
        _call(reward, 2, ids=["p", "p"])
    clean = RewardWithCorruption(Fixed([0.0, 0.3]), RewardConfig(flip=0.0), seed=0, num_generations=2)
    assert _call(clean, 2, ids=["p", "p"]) == [0, 0.3]
