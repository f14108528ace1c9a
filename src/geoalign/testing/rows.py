"""Promises on what happens to rows: of any group, without a reward, unfit as donors, in any order, of any size."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from geoalign.testing.batches import (
    RewardKind,
    batches_without_pairs,
    empty_batch,
    ragged_batch,
    rounded_and_clean,
    single_row,
    with_unscored_rows,
)
from geoalign.testing.trial import (
    Trial,
    close,
    curate,
    equal,
    expect,
    expect_finite,
    expect_same,
    promise,
    trained_advantages,
)
from geoalign.types import Curation


@promise("every row stays in its group")
def rows_stay_in_their_groups(trial: Trial) -> None:
    rollouts, source = trial.batch(), trial.expected.source
    groups = rollouts.groups[source]
    if len(source) == len(rollouts):
        expect(torch.equal(groups, rollouts.groups), "a row takes the place of a row of another group")
    ragged = ragged_batch(trial.rewards)
    kept = trial.ragged.source
    before = torch.bincount(ragged.groups, minlength=10)
    after = torch.bincount(ragged.groups[kept], minlength=10)
    expect((after <= before).all(), "a group has more rows than before")


@promise("a row keeps its reward, unless it declares to change rewards")
def rewards_go_with_their_rows(trial: Trial) -> None:
    if not trial.may_change_rewards:
        came_with = trial.batch().rewards[trial.expected.source]
        expect(equal(trial.expected.rewards, came_with), "an output row has another reward than its input row")


@promise("a row without a reward has weight 0 and takes no other row's place")
def unscored_rows_teach_nothing(trial: Trial) -> None:
    rollouts = with_unscored_rows(trial.batch(), slice(None, None, 5))
    curation = trial.decide(rollouts)
    unscored = rollouts.rewards.isnan()[curation.source]
    expect((curation.weights[unscored] == 0).all(), "a row without a reward has a weight other than 0")
    if len(curation.source) == len(rollouts):
        expect(not unscored[curation.replaced].any(), "a row without a reward takes another row's place")
    given = curation.advantages
    expect(given is None or given[~unscored].isfinite().all(), "the advantage of a row with a reward is not finite")


@promise("a row whose donor_ok is False takes no other row's place")
def unfit_rows_replace_none(trial: Trial) -> None:
    rollouts = trial.batch()
    fit = torch.arange(len(rollouts)) % 3 != 0
    curation = trial.decide(replace(rollouts, donor_ok=fit))
    if len(curation.source) == len(rollouts):
        expect(fit[curation.source[curation.replaced]].all(), "a row unfit as a donor takes another row's place")


@promise("rows in which the policy wrote no token are no error: they have no log-probability and no length")
def rows_without_a_token_are_no_error(trial: Trial) -> None:
    """As engines give them; some have a reward, some have none."""
    rollouts = with_unscored_rows(trial.batch(), [0, 7])
    assert rollouts.logprobs is not None
    assert rollouts.lengths is not None
    without_token = [0, 1, 13]
    rollouts.logprobs[without_token] = math.nan
    rollouts.lengths[without_token] = 0
    curation = trial.decide(replace(rollouts, donor_ok=rollouts.lengths > 0))
    expect(curation.weights.isfinite().all(), "a weight is not finite")
    unscored = rollouts.rewards.isnan()[curation.source]
    expect((curation.weights[unscored] == 0).all(), "a row without a reward has a weight other than 0")


@promise("an empty batch is no error, and teaches it nothing")
def an_empty_batch_is_no_error(trial: Trial) -> None:
    curator = trial.new()
    curation = curate(curator, empty_batch())
    for name in ("source", "rewards", "weights", "scores", "anomalous"):
        shape = tuple(getattr(curation, name).shape)
        expect(shape == (0,), f"{name} of no rows has shape {shape}")
    expect(curation.source.dtype == torch.int64, f"source of no rows is of type {curation.source.dtype}")
    curate(curator, trial.batch(1))
    curate(curator, empty_batch())
    after = curate(curator, trial.batch())
    _, without = trial.in_turn[-1]
    expect_same(after, without, "after batches between which there was an empty one")


@promise("a batch of one row and groups of any size, in any order, are no error")
def groups_of_any_size_are_no_error(trial: Trial) -> None:
    expect(len(trial.decide(single_row()).source) <= 1, "one row became several")
    expect(trial.ragged.weights.isfinite().all(), "a weight is not finite")


@promise("in groups of equal rewards, of one row and without a reward no row is anomalous, and advantages are 0")
def groups_without_pairs_say_nothing(trial: Trial) -> None:
    for rollouts in batches_without_pairs():
        curation = trial.decide(rollouts)
        expect(not curation.anomalous.any(), "a row is anomalous")
        expect(curation.weights.isfinite().all(), "a weight is not finite")
        unscored = rollouts.rewards.isnan()[curation.source]
        expect((curation.weights[unscored] == 0).all(), "a row without a reward has a weight other than 0")
        if curation.advantages is not None and not trial.curator.absolute_advantages:
            trained = (curation.advantages * curation.weights).nan_to_num(0.0).abs().sum()
            expect(trained < 1e-3, "an advantage is not 0 (declare absolute_advantages if this is its method)")


@promise("rewards that differ by rounding alone are equal rewards")
def rounding_tells_nothing(trial: Trial) -> None:
    if trial.curator.binary_rewards:
        return
    rounded, clean = rounded_and_clean()
    expected = trial.decide(clean)
    trained = trained_advantages(expected, clean)
    for rewards in (rounded.rewards, rounded.rewards.double()):
        rollouts = replace(rounded, rewards=rewards)
        curation = trial.decide(rollouts)
        found = f"0.7 and 0.1 + 0.6 are told apart in {rewards.dtype} (compare rewards by geoalign.tied_rewards)"
        expect(torch.equal(curation.source, expected.source), found)
        expect(torch.equal(curation.anomalous, expected.anomalous), found)
        alike = close(trained_advantages(curation, rollouts).float(), trained, atol=1e-5, rtol=1e-5)
        expect(alike, found)


@promise("the order of the rows changes nothing")
def the_order_of_rows_changes_nothing(trial: Trial) -> None:
    kinds: tuple[RewardKind, ...] = ("binary",) if trial.rewards == "binary" else ("continuous", "binary")
    for rewards in kinds:
        rollouts = trial.batch(rewards=rewards)
        order = torch.randperm(len(rollouts), generator=torch.Generator().manual_seed(9))
        straight, shuffled = trial.decide(rollouts), trial.decide(rollouts.take(order))
        expect(torch.equal(straight.anomalous[order], shuffled.anomalous), "other rows are anomalous")
        alike = close(straight.scores[order], shuffled.scores, atol=1e-5, rtol=1e-4)
        expect(alike, "rows have other scores")
        # As rows of the original batch, in any order.
        expect(sorted(order[shuffled.source].tolist()) == sorted(straight.source.tolist()), "other rows are kept")
        before = _trained_values(straight, straight.source)
        after = _trained_values(shuffled, order[shuffled.source])
        expect(close(before, after, atol=2e-4, rtol=1e-6), "rows have other rewards, weights or advantages")


def _trained_values(curation: Curation, rows: torch.Tensor) -> torch.Tensor:
    """Advantages where it gives its own, else rewards, times the weights; by row of the batch, then by value."""
    given = curation.rewards if curation.advantages is None else curation.advantages
    values = zip(rows.tolist(), (given * curation.weights).tolist(), strict=True)
    return torch.tensor([round(value, 4) for _, value in sorted(values)])


@promise("the ids of groups change nothing")
def the_ids_of_groups_change_nothing(trial: Trial) -> None:
    rollouts = trial.batch()
    renamed = replace(rollouts, groups=rollouts.groups * 7 - 20)
    expect_same(trial.decide(renamed), trial.expected, "under other ids of the same groups")


@promise("very large and very small rewards give finite numbers")
def extreme_rewards_give_finite_numbers(trial: Trial) -> None:
    if trial.curator.binary_rewards:
        return
    for scale in (1e30, 1e20, 1e-30):
        rollouts = trial.batch(rewards="continuous")
        rewards = rollouts.rewards * scale
        curation = trial.decide(replace(rollouts, rewards=rewards, true_rewards=rewards))
        expect_finite(curation)
        if trial.may_change_rewards:
            expect(curation.rewards.isfinite().all(), f"a reward is not finite at rewards of about {scale}")
        else:
            kept = torch.equal(curation.rewards, rewards[curation.source])
            expect(kept, f"rewards are others at rewards of about {scale}")


@promise("rewards and states of half precision are decided as the same numbers in float32")
def half_precision_is_decided_in_float32(trial: Trial) -> None:
    rollouts = trial.batch()
    assert rollouts.hidden is not None
    rewards, hidden = rollouts.rewards.bfloat16(), rollouts.hidden.bfloat16()
    half = replace(rollouts, rewards=rewards, true_rewards=rewards, groups=rollouts.groups.int(), hidden=hidden)
    full = replace(rollouts, rewards=rewards.float(), true_rewards=rewards.float(), hidden=hidden.float())
    curation = trial.decide(half)
    expect(curation.rewards.dtype == torch.float32, f"rewards are of type {curation.rewards.dtype}")
    expect_same(curation, trial.decide(full), "from those in float32")


@promise("float64 rewards stay float64, and are decided as float32 ones")
def float64_rewards_stay(trial: Trial) -> None:
    rollouts, narrow = trial.batch(), trial.expected
    assert rollouts.true_rewards is not None
    wide, wide_true = rollouts.rewards.double(), rollouts.true_rewards.double()
    curation = trial.decide(replace(rollouts, rewards=wide, true_rewards=wide_true))
    expect(curation.rewards.dtype == torch.float64, f"rewards are of type {curation.rewards.dtype}")
    expect(torch.equal(curation.source, narrow.source), "other rows are kept, or stand elsewhere")
    expect(torch.equal(curation.anomalous, narrow.anomalous), "other rows are anomalous")
