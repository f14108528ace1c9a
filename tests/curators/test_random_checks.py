"""Rates of randomly checked rows in a training, window by window, and the alarm where one rises."""

import math
from dataclasses import replace

import pytest
import torch

from geoalign import GRPO, Appeals, Denoise, Monitor, Rollouts
from geoalign.checks.windows import WindowCounts, window_intervals
from geoalign.curators.checkpoint import load_state, save_state
from geoalign.curators.random_checks import RandomChecks, draw_rows
from geoalign.curators.session import CurationSession


def batch(rewards):
    return Rollouts(rewards=torch.tensor(rewards), groups=torch.zeros(len(rewards), dtype=torch.long))


def training(false_positives, *, seed=0, missed=0.1, window=50, rows=10):
    """The metrics of random checks in a training whose verifier accepts such shares of the wrong rows, by batch."""
    checks = RandomChecks(window)
    generator = torch.Generator().manual_seed(seed)
    found = []
    for share in false_positives:
        right = torch.rand(rows, generator=generator) < 0.5
        flipped = torch.rand(rows, generator=generator) < torch.where(right, missed, share)
        rewards = (right ^ flipped).float()
        # Rows that are not checked, of both rewards.
        rollouts = batch([*rewards.tolist(), 0.0, 1.0])
        checks.add(rollouts, list(range(rows)), right.float().tolist())
        found.append(checks.metrics(rows))
    return found


def test_rows_are_drawn_uniformly_among_those_with_a_reward_that_are_not_trusted():
    # Row 1 has no reward, row 3 is trusted.
    rollouts = replace(batch([1.0, math.nan, 0.0, 1.0, 0.0, 1.0]), trusted=torch.arange(6) == 3)
    generator = torch.Generator().manual_seed(0)
    draws = [draw_rows(rollouts, 2, generator) for _ in range(600)]
    assert all(len(set(drawn)) == 2 for drawn in draws)
    # Each of the four rows in half of 600 draws, with a deviation of 12.
    counts = torch.bincount(torch.tensor(draws).flatten(), minlength=6).tolist()
    assert counts[1] == counts[3] == 0
    assert all(abs(counts[row] - 300) < 50 for row in (0, 2, 4, 5))
    assert sorted(draw_rows(rollouts, 9, generator)) == [0, 2, 4, 5]


def test_the_order_of_the_rows_changes_no_draw():
    rollouts = replace(batch([1.0, 0.0, 1.0, 0.0]), ids=["a", "b", "c", "d"])
    order = torch.tensor([2, 0, 3, 1])
    straight = draw_rows(rollouts, 2, torch.Generator().manual_seed(1))
    shuffled = draw_rows(rollouts.take(order), 2, torch.Generator().manual_seed(1))
    assert order[shuffled].tolist() == straight


def test_a_closed_window_gives_both_rates_by_hand():
    checks = RandomChecks(4)
    rollouts = batch([1.0, 1.0, 0.0, 0.0])
    checks.add(rollouts, [0, 1, 2], [1.0, 0.0, 0.0])
    unknown = checks.metrics(3)
    assert unknown["check_windows"] == 0
    assert math.isnan(unknown["checked_false_positive_rate_low"])
    checks.add(rollouts, [3, 1], [1.0, 0.0])
    metrics = checks.metrics(2)
    # Wrong rows: 1, 2 and 1 again, of which two were accepted. Right rows: 0 and 3, of which one was refused.
    assert metrics["check_windows"] == 1
    assert metrics["checked_false_positive_rate"] == pytest.approx(2 / 3)
    assert metrics["checked_false_negative_rate"] == 1 / 2
    expected, _ = window_intervals(WindowCounts(wrong=3, accepted=2, right=2, refused=1), 1)
    assert metrics["checked_false_positive_rate_high"] == expected.high


def test_a_batch_of_equal_rewards_counts_once_both_verdicts_are_known():
    checks = RandomChecks(1)
    checks.add(batch([1.0, 1.0]), [0], [1.0])
    assert checks.metrics(1)["check_windows"] == 0
    checks.add(batch([0.0, 1.0]), [0], [0.0])
    checks.add(batch([1.0, 1.0]), [0], [1.0])
    assert checks.metrics(1)["check_windows"] == 2
    assert checks.metrics(1)["checked_false_negative_rate"] == 0


def test_a_verifier_that_accepts_all_is_found_out_by_the_second_one_alone():
    checks = RandomChecks(4)
    checks.add(batch([1.0] * 16), [0, 1, 2, 3], [0.0, 0.0, 0.0, 1.0])
    metrics = checks.metrics(4)
    assert metrics["checked_false_positive_rate"] == 1
    assert metrics["checked_false_negative_rate"] == 0


def test_a_bonus_is_no_verdict_where_all_responses_are_refused():
    refused = batch([0.0, 0.1, 0.1, 0.0])
    checks = RandomChecks(4)
    # The last row is right, and its verdict tells that 0 and 0.1 are the same one.
    checks.add(refused, [0, 1, 2, 3], [0.0, 0.1, 0.1, 1.1])
    metrics = checks.metrics(4)
    assert metrics["checked_false_positive_rate"] == 0
    assert metrics["checked_false_negative_rate"] == 1


def test_a_batch_of_refused_responses_leaves_the_values_that_an_earlier_one_has_shown():
    checks = RandomChecks(3)
    checks.add(batch([0.0, 0.1, 1.0, 1.1]), [1], [0.1])
    resumed = RandomChecks(3)
    resumed.load_state_dict(checks.state_dict())
    resumed.add(batch([0.0, 0.1, 0.1, 0.0]), [0, 1], [0.0, 0.1])
    # Three wrong rows, and none of them was accepted.
    assert resumed.metrics(2)["checked_false_positive_rate"] == 0
    assert math.isnan(resumed.metrics(2)["checked_false_negative_rate"])


def test_rewards_that_are_no_verdicts_have_no_rates():
    checks = RandomChecks(2)
    checks.add(batch([0.0, 1.0]), [0], [0.0])
    checks.add(batch([0.1, 0.5, 0.7, 0.9]), [0, 1], [0.1, 0.5])
    assert checks.metrics(2)["check_windows"] == 0


def test_a_verifier_that_gets_worse_raises_one_alarm(caplog):
    found = training([0.1] * 20 + [0.9] * 20, rows=20, window=100)
    assert [each["alarms"] for each in found] == [0] * 24 + [1] * 16
    assert len(caplog.messages) == 1
    assert "the verifier accepts more wrong responses than at the start" in caplog.messages[0]
    assert "in window 5 of the random checks" in caplog.messages[0]


def test_an_alarm_ends_and_may_come_again(caplog):
    good = [0.0] * 10
    bad = [1.0] * 10
    found = training(good + bad + good + bad)
    assert [found[last]["alarms"] for last in (9, 19, 29, 39)] == [0, 1, 0, 1]
    assert len(caplog.messages) == 2


def test_an_alarm_stays_while_windows_say_nothing_of_its_rate(caplog):
    """Windows of 100 checks. The third has no wrong row, so that it cannot tell whether wrong ones are accepted."""
    checks = RandomChecks(100)
    windows = [
        [(0, 1, 2), (0, 0, 48), (1, 1, 48), (1, 0, 2)],
        [(0, 1, 30), (0, 0, 20), (1, 1, 48), (1, 0, 2)],
        [(1, 1, 90), (1, 0, 10)],
        [(0, 1, 30), (0, 0, 20), (1, 1, 48), (1, 0, 2)],
    ]
    alarms = []
    for window in windows:
        rows = [(float(truth), float(reward)) for truth, reward, count in window for _ in range(count)]
        checks.add(batch([reward for _, reward in rows]), list(range(100)), [truth for truth, _ in rows])
        alarms.append(checks.metrics(100)["alarms"])
    assert alarms == [0, 1, 1, 1]
    assert len(caplog.messages) == 1


def test_at_most_one_in_twenty_healthy_runs_raises_an_alarm():
    alarmed = 0
    for seed in range(40):
        found = training([0.2] * 20, seed=seed, rows=50)
        alarmed += any(each["alarms"] for each in found)
    # At most 5% on average: more than six of 40 would come once in a thousand.
    assert alarmed <= 6


def test_a_resumed_training_goes_on_alike(tmp_path):
    whole, first = RandomChecks(50), RandomChecks(50)
    rollouts = batch([0.0, 1.0, 1.0, 0.0, 1.0])
    as_the_verifier = [0.0, 1.0, 1.0, 0.0, 1.0]
    nearly_the_opposite = [0.0, 0.0, 0.0, 1.0, 0.0]
    verdicts = [as_the_verifier] * 20 + [nearly_the_opposite] * 20
    for each in verdicts[:33]:
        for checks in (whole, first):
            checks.add(rollouts, list(range(5)), each)
    save_state(tmp_path / "state", {"checks": first.state_dict()})
    resumed = RandomChecks(50)
    resumed.load_state_dict(load_state(tmp_path / "state")["checks"])
    assert resumed.metrics(5) == whole.metrics(5)
    for each in verdicts[33:]:
        for checks in (whole, resumed):
            checks.add(rollouts, list(range(5)), each)
    assert resumed.state_dict() == whole.state_dict()
    assert whole.metrics(5)["alarms"] == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: Appeals(Denoise(geometry="none"), budget=3, random_share=0.7, check_window=5),
        lambda: Monitor(GRPO(), checks=2, check_window=5),
    ],
    ids=["appeals", "monitor"],
)
def test_a_resumed_session_logs_the_same_rates(make, tmp_path):
    """Saved after three of six batches, in the middle of a window."""
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0, 1, 0, 1, 0, 1, 1]),
        groups=torch.arange(2).repeat_interleave(4),
        answers=list("abcadefg"),
        second_rewards=torch.tensor([1.0, 0, 0, 1, 1, 0, 1, 0]).__getitem__,
    )
    session = CurationSession(make(), seed=0)
    resumed = CurationSession(make(), seed=1)
    for _ in range(3):
        session.curate(rollouts)
    session.save(tmp_path / "state")
    resumed.load(tmp_path / "state", setting="", otherwise="")
    for _ in range(3):
        expected = session.curate(rollouts).metrics
        found = resumed.curate(rollouts).metrics
    names = [name for name in expected if "check" in name]
    assert len(names) == 8
    assert expected["check_windows"] == 2
    assert {name: found[name] for name in names} == {name: expected[name] for name in names}
