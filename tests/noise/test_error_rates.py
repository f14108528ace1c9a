"""The model of a verifier's verdicts: trusted rows in it, and the order of rows, which it must not depend on."""

import math
from dataclasses import replace

import pytest
import torch
from denoise_batches import answered

from geoalign import Rollouts
from geoalign.method.groups import canonical_order
from geoalign.noise import error_checks
from geoalign.noise.channel import NoiseFit
from geoalign.noise.doubts import BY_CHANCE
from geoalign.noise.error_rates import error_rates, patterns_in
from geoalign.noise.rows import noisy_rows


def rows_of(rollouts):
    return noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=True)


def prompts(rewards, answers, trusted, *, times=1):
    """Groups of one prompt's rows each, as often as said."""
    size = len(rewards)
    return Rollouts(
        rewards=torch.tensor(rewards * times),
        groups=torch.arange(times * size) // size,
        answers=[*answers] * times,
        trusted=torch.tensor(trusted * times),
    )


def test_groups_of_equal_counts_and_opposite_truths_are_two_patterns():
    """Three verdicts 1 1 0 on "a" in each, which a checked row shows to be right in one, and wrong in the other."""
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 1, 1, 0, 0, 1, 1, 0]),
        groups=torch.arange(8) // 4,
        answers=["a"] * 8,
        trusted=torch.tensor([True, False, False, False] * 2),
    )
    patterns = patterns_in(rows_of(rollouts))
    assert patterns.times.tolist() == [1, 1]
    assert patterns.units.known_log_odds.sign().tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("rewards", "answers", "expected"),
    [
        # "a" is known to be right: a quarter of its verdicts is 0.
        ([1.0, 1, 0, 1, 0], "aaaaa", 0.75),
        # "a" is known to be wrong, by its own row or by the right one: it is never rewarded.
        ([0.0, 1, 0, 1, 0], "aaaaa", 0.0),
        ([1.0, 1, 0, 1, 0], "baaaa", 0.0),
    ],
)
def test_tables_are_drawn_with_the_truth_that_trusted_rows_tell(rewards, answers, expected):
    patterns = patterns_in(rows_of(prompts(rewards, answers, [True] + [False] * 4, times=200)))
    fit = NoiseFit(
        theta=torch.zeros_like(patterns.units.prior_theta),
        error=torch.tensor(0.25).double(),
        # Each error refuses.
        replacement=torch.tensor([1.0, 0.0]).double(),
        correlation=torch.zeros(()).double(),
        values=torch.full((2,), 0.5).double(),
    )
    copies = error_checks._copies(patterns)
    drawn = error_checks._drawn_verdicts(copies, fit, torch.Generator().manual_seed(0))
    assert drawn.sum() == 800
    # Of 800 verdicts, whose share of 1s has a standard deviation of 0.015.
    assert float(drawn[:, 1].sum()) / 800 == pytest.approx(expected, abs=0.05 if expected else 0)


def test_trusted_rows_refute_no_fit_of_independent_errors():
    """A tenth of the rows is checked; the rates are those of the others."""
    rollouts = answered(1, groups=200, wrong=0.15)
    trusted = torch.rand(1600, generator=torch.Generator().manual_seed(2)) < 0.1
    rewards = torch.where(trusted, rollouts.true_rewards, rollouts.rewards)
    found = error_rates(rows_of(replace(rollouts, rewards=rewards, trusted=trusted)))
    assert found.doubt == ""
    assert all(interval.low < 0.15 < interval.high for interval in found.intervals[:2])


@pytest.mark.parametrize(("trusted", "expected"), [(None, 1), (3, 0), (0, 0)])
def test_a_trusted_row_leaves_no_other_gold_answer(trusted, expected):
    """ "a" is always refused and might be right all the same: not where it is checked, or "b" is and right."""
    is_trusted = [row == trusted for row in range(8)]
    patterns = patterns_in(rows_of(prompts([1.0, 1, 1, 0, 0, 0, 0, 0], "bbbaaaaa", is_trusted)))
    # By the model "b" is right, and "a" is wrong.
    is_b = patterns.units.counts[:, 1] > 0
    found = error_checks._right_if_other_gold(patterns, is_b.double())
    assert float(found[~is_b]) == expected


def test_of_a_verifier_that_flips_coins_no_interval_is_given():
    """The pseudo-counts of the fit take it for better than it is, so that the intervals of its rates often miss."""
    believed = 0
    for seed in range(20):
        verdicts = torch.rand(800, generator=torch.Generator().manual_seed(seed)) < 0.5
        found = error_rates(rows_of(replace(answered(seed, groups=100, wrong=0.0), rewards=verdicts.float())))
        believed += found.doubt == ""
    # Of such coins one in a hundred passes.
    assert believed <= 1
    assert found.doubt == BY_CHANCE
    assert all(math.isnan(number) for interval in found.intervals for number in (interval.estimate, interval.low))
    # As long as verdicts follow the answers, they are: of as many.
    assert error_rates(rows_of(answered(0, groups=100, wrong=0.2))).doubt == ""


def test_of_errors_that_repeat_the_reason_says_so_though_chance_explains_the_verdicts_as_well():
    """Verdicts drawn once for each answer, at one rate for right and wrong ones."""
    rollouts = answered(0, groups=60, wrong=0.0)
    draw = torch.Generator().manual_seed(1)
    verdict_of: dict[tuple[int, str], float] = {}
    rewards = []
    for group, answer in zip(rollouts.groups.tolist(), rollouts.answers, strict=True):
        drawn = float(torch.rand((), generator=draw) < 0.5)
        rewards.append(verdict_of.setdefault((group, answer), drawn))
    # A few verdicts contradict the others, so that the model has something to learn from.
    flipped = torch.rand(len(rewards), generator=draw) < 0.02
    rewards = torch.where(flipped, 1 - torch.tensor(rewards), torch.tensor(rewards))
    found = error_rates(rows_of(replace(rollouts, rewards=rewards)))
    assert found.doubt.startswith("verdicts on equal answers hardly contradict each other")


def shuffled(rollouts, seed):
    """The rows in another order, and groups by other numbers."""
    draw = torch.Generator().manual_seed(seed)
    other_numbers = torch.randperm(int(rollouts.groups.max()) + 1, generator=draw)
    renamed = replace(rollouts, groups=other_numbers[rollouts.groups])
    return renamed.take(torch.randperm(len(rollouts), generator=draw))


def test_the_order_of_the_rows_and_the_numbers_of_groups_do_not_show():
    for seed in range(6):
        rollouts = answered(seed, groups=40, wrong=0.15)
        assert error_rates(rows_of(shuffled(rollouts, seed))) == error_rates(rows_of(rollouts))


@pytest.mark.parametrize("answers", ["aabb", "bbaa"])
def test_of_two_answers_as_frequent_the_one_that_was_refused_leads(answers):
    rollouts = prompts([0.0, 0, 1, 1], answers, [False] * 4)
    patterns = patterns_in(rows_of(rollouts))
    leads = error_checks._leads(patterns)
    assert patterns.units.counts[leads].tolist() == [[2, 0]]


def test_groups_of_equal_counts_in_which_answers_exclude_each_other_and_do_not_are_two_patterns():
    """Verdicts 1 and 0 on "a", 1 on "b", in both groups; both answers to the second one may be right."""
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0, 1, 1, 0, 1]),
        groups=torch.arange(6) // 3,
        answers=["a", "a", "b"] * 2,
        shared_answers=torch.arange(6) >= 3,
    )
    units = patterns_in(rows_of(rollouts)).units
    # The units of the first group have one label, and those of the second one each its own.
    assert sorted(torch.bincount(units.exclusive_set).tolist()) == [1, 1, 2]
    assert units.shared.sum() == 2
