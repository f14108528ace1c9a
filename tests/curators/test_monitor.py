import logging
import math
from dataclasses import replace

import pytest
import torch

from geoalign import GRPO, Appeals, Chain, Denoise, GeoAlign, Monitor, Rollouts
from geoalign.adapters.assignment import assign
from geoalign.adapters.decision import decision_metrics
from geoalign.curators.baselines.controls import PairCount
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError

RATES = ("false_positive_rate", "false_negative_rate", "informedness")


def verdicts(seed, *, wrong=0.0, missed=0.0, groups=24, size=8):
    """Answers of which a third is right, and verdicts: `wrong` of the wrong pass, `missed` of the right fail."""
    generator = torch.Generator().manual_seed(seed)
    right = torch.rand(groups * size, generator=generator) < 1 / 3
    which_wrong = torch.randint(3, (groups * size,), generator=generator).tolist()
    flipped = torch.rand(groups * size, generator=generator) < torch.where(right, missed, wrong)
    return Rollouts(
        rewards=(right ^ flipped).float(),
        groups=torch.arange(groups).repeat_interleave(size),
        answers=["right" if yes else f"wrong {name}" for yes, name in zip(right.tolist(), which_wrong, strict=True)],
    )


def with_ends(metrics, name):
    """A rate between the ends of its interval: (low, rate, high)."""
    return metrics[f"{name}_low"], metrics[name], metrics[f"{name}_high"]


def where_one_wrong_answer_passes(batch, lenient_groups=None):
    """The batch of a verifier that is a function of the answer: "wrong 0" is rewarded, in all groups or in these."""
    passes = torch.tensor([answer == "wrong 0" for answer in batch.answers])
    if lenient_groups is not None:
        passes &= lenient_groups
    return replace(batch, rewards=batch.rewards.masked_fill(passes, 1.0))


def test_the_inner_curators_metrics_stay_but_for_the_rates():
    rollouts = verdicts(0, wrong=0.3)
    assert Monitor().config.curator == Denoise().config
    curation = Denoise(geometry="none").curate(rollouts)
    watched = Monitor(curator=Denoise(geometry="none")).curate(rollouts).metrics
    # By the verdicts alone, without the inner curator's prior.
    other = (*RATES, "true_positive_rate", "seconds")
    own = {name: value for name, value in curation.metrics.items() if name not in other}
    assert {name: watched[name] for name in own} == pytest.approx(own, nan_ok=True)
    assert watched["true_positive_rate"] == 1 - watched["false_negative_rate"]
    assert watched["anomalous_share"] == curation.anomalous.sum() / len(rollouts)
    # Rows whose reward is known are no share of the batch.
    taught = replace(rollouts, trusted=torch.arange(len(rollouts)) < 48)
    seen = Monitor(curator=Denoise(geometry="none")).curate(taught)
    assert seen.metrics["anomalous_share"] == pytest.approx(float(seen.anomalous[48:].double().mean()))


def test_intervals_hold_the_rates_of_the_verifier():
    """Of 24 verifiers 95% are 23; where their verdicts do not tell them the ends are NaN."""
    worlds = (verdicts(seed, wrong=0.1, missed=0.2, groups=100) for seed in range(24))
    found = [Monitor(curator=GRPO()).curate(world).metrics for world in worlds]
    # The widths leave room for the errors that may repeat; that of the informedness is of both rates together.
    for name, rate, width in zip(RATES, (0.1, 0.2, 0.7), (0.2, 0.45, 0.65), strict=True):
        intervals = [(each[f"{name}_low"], each[f"{name}_high"]) for each in found]
        assert sum(low <= rate <= high for low, high in intervals) >= 20
        assert all(high - low < width for low, high in intervals if low >= 0)


def test_errors_that_repeat_with_the_answer_leave_no_interval():
    """A verifier that is a function of the answer: on half of the prompts "wrong 0" passes as well."""
    batch = verdicts(0, groups=60)
    fooled = where_one_wrong_answer_passes(batch, lenient_groups=batch.groups % 2 == 0)
    metrics = Monitor(curator=GRPO(), bounds={"false_positive_rate": 0.0}).curate(fooled).metrics
    for name in RATES:
        assert math.isnan(metrics[f"{name}_low"])
        assert math.isnan(metrics[f"{name}_high"])
    assert metrics["alarms"] == 0


def test_a_healthy_training_of_100_batches_raises_no_alarm(caplog):
    bounds = {"false_positive_rate": 0.2, "informedness": [0.7, 1.0], "false_positive_rate_drift": 0.05}
    monitor = Monitor(curator=GRPO(), bounds=bounds)
    found = [monitor.curate(verdicts(step, wrong=0.1, missed=0.1, groups=16)).metrics for step in range(100)]
    assert not caplog.records
    assert not any(each["alarms"] for each in found)
    # It was looking nearly all along.
    told = [each for each in found[10:] if each["false_positive_rate_low"] <= each["false_positive_rate_high"] < 0.3]
    assert len(told) > 60
    assert sum("false_positive_rate_drift_low" in each for each in found) > 60


def test_a_metric_that_leaves_its_bounds_is_named_once_until_it_is_back(caplog):
    bounds = {"false_positive_rate": 0.2, "informedness": [0.7, 1.0]}
    monitor = Monitor(curator=Denoise(geometry="none"), bounds=bounds, window=1)
    rates = [0.1, 0.1, 0.45, 0.45, 0.1, 0.1, 0.45, 0.1]
    worlds = [verdicts(step, wrong=rate, missed=0.1, groups=64) for step, rate in enumerate(rates)]
    with caplog.at_level(logging.WARNING):
        found = [monitor.curate(world).metrics for world in worlds]
    assert [each["alarms"] for each in found] == [0, 0, 2, 2, 0, 0, 2, 0]
    assert [message.split(" in batch ")[1][0] for message in caplog.messages] == ["3", "3", "7", "7"]
    low, value, high = with_ends(found[2], "false_positive_rate")
    assert 0.2 < low < value < high
    said = f"false_positive_rate is {value:.3g} ({low:.3g} to {high:.3g}) in batch 3, outside of 0.2"
    assert caplog.messages[0] == said


def test_a_bound_in_which_no_value_lies_is_refused():
    with pytest.raises(ConfigError, match=r"bounds: expected \[smallest, largest\] for 'informedness', got \[1, 0\]"):
        Monitor(GRPO(), bounds={"informedness": [1.0, 0.0]})


def test_a_bound_on_a_metric_that_never_comes_is_named_once_with_the_nearest(caplog):
    """A drift, which comes after two windows, and a rate, which comes with verdicts alone, are no such metrics."""
    awaited = {"false_positive_rate_drift": 1.0, "informedness": [-1.0, 1.0]}
    monitor = Monitor(GRPO(), bounds={"false_postive_rate": 0.1, **awaited}, window=2)
    scores = [replace(verdicts(step), rewards=torch.randn(192)) for step in range(2)]
    for batch in (*scores, *(verdicts(step, wrong=0.1, missed=0.1) for step in range(4))):
        assert monitor.curate(batch).metrics["alarms"] == 0
    assert len(caplog.messages) == 1
    assert "in 2 batches there was no metric 'false_postive_rate'" in caplog.text
    assert "(nearest: false_positive_rate)" in caplog.text


def test_the_share_of_flags_is_of_the_rows_that_the_curator_scored():
    """Of eight rows four are in pairs, and one of these is flagged; plain GRPO scores none."""
    rollouts = Rollouts(rewards=torch.tensor([1.0, 0, 0, 0, 1, 1, 1, 1]), groups=torch.arange(8) // 4)
    curator = PairCount(alpha=0.9, min_scores=2, max_fraction=None)
    watched = Monitor(curator).curate(rollouts)
    assert watched.scores.isnan().tolist() == [False] * 4 + [True] * 4
    assert watched.anomalous.sum() == 1
    assert watched.metrics["anomalous_share"] == 0.25
    curation = curator.curate(rollouts)
    metrics = decision_metrics(curation, rollouts, assign(curation, rollouts.groups))
    assert metrics["anomalous_share"] == 0.25
    assert math.isnan(Monitor(GRPO()).curate(rollouts).metrics["anomalous_share"])


def test_a_bound_on_a_rate_by_the_model_must_be_exceeded_in_a_whole_window_in_a_row(caplog):
    monitor = Monitor(curator=GRPO(), bounds={"false_positive_rate": 0.2}, window=3)
    found = [monitor.curate(verdicts(step, wrong=0.45, missed=0.1, groups=64)).metrics for step in range(4)]
    assert all(each["false_positive_rate_low"] > 0.2 for each in found)
    assert [each["alarms"] for each in found] == [0, 0, 1, 1]
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "wrap", [lambda inner: Chain([inner]), lambda inner: Chain(["grpo", Chain([inner])]), Monitor, Appeals]
)
@pytest.mark.parametrize("settings", [{"answers": "shared"}, {"answers": "none"}, {"window": 30}])
def test_the_estimates_are_those_without_what_is_around_the_inner_curator(wrap, settings):
    rollouts = replace(verdicts(0, wrong=0.3, missed=0.1), second_rewards=lambda rows: [None] * len(rows))
    plain = Monitor(Denoise(geometry="none", **settings))
    around = Monitor(wrap(Denoise(geometry="none", **settings)))
    expected = plain.curate(rollouts).metrics
    found = around.curate(rollouts).metrics
    del expected["seconds"]
    assert {name: found[name] for name in expected} == pytest.approx(expected, nan_ok=True)
    assert around.pooled_batches == plain.pooled_batches


def test_the_noisy_component_is_that_of_a_curator_within():
    rollouts = verdicts(0, wrong=0.3, missed=0.1)
    bonus = torch.arange(len(rollouts)) % 3 * 0.7
    summed = replace(rollouts, rewards=rollouts.rewards + bonus, components={"bonus": bonus, "v": rollouts.rewards})
    inner = Denoise(geometry="none", component="v")
    alone = Monitor(inner).curate(summed).metrics
    chained = Monitor(Chain([inner])).curate(summed).metrics
    whole = Monitor(GRPO()).curate(rollouts).metrics
    assert alone["false_positive_rate"] == chained["false_positive_rate"] == whole["false_positive_rate"]


def test_the_rate_of_accepted_right_answers_has_the_interval_of_the_refused_ones():
    metrics = (
        Monitor(GRPO(), bounds={"true_positive_rate": (0.9, 1.0)}).curate(verdicts(0, wrong=0.1, missed=0.3)).metrics
    )
    low, value, high = with_ends(metrics, "false_negative_rate")
    assert with_ends(metrics, "true_positive_rate") == (1 - high, 1 - value, 1 - low)
    # Rates by the model are outside of a bound once they were so in a whole window.
    assert metrics["alarms"] == 0


def test_without_an_interval_that_can_be_told_nothing_is_outside():
    rollouts = verdicts(0, wrong=0.4)
    for untold in (Rollouts(rewards=rollouts.rewards, groups=rollouts.groups), verdicts(0, wrong=1.0, missed=-1.0)):
        metrics = Monitor(curator=Denoise(geometry="none"), bounds={RATES[0]: 0.0}).curate(untold).metrics
        assert metrics["alarms"] == 0
        assert math.isnan(metrics["false_positive_rate_low"])


def test_drift_is_the_change_since_the_first_window_by_hand():
    monitor = Monitor(curator=GRPO(), window=2)
    rates = [0.1, 0.1, 0.1, 0.1, 0.4, 0.4]
    worlds = [verdicts(step, wrong=rate, missed=0.1, groups=48) for step, rate in enumerate(rates)]
    found = [monitor.curate(world).metrics for world in worlds]
    assert ["informedness_drift" in each for each in found] == [False, False, False, True, False, True]
    # In the fifth batch the window holds both verifiers, which no one pair of rates fits.
    assert math.isnan(found[4]["false_positive_rate_low"])
    a_low, a, a_high = with_ends(found[1], "false_positive_rate")
    b_low, b, b_high = with_ends(found[5], "false_positive_rate")
    low, drift, high = with_ends(found[5], "false_positive_rate_drift")
    # Of two independent estimates the squares of the distances to the ends add up.
    assert drift == pytest.approx(b - a)
    assert low == pytest.approx(drift - ((b - b_low) ** 2 + (a_high - a) ** 2) ** 0.5)
    assert high == pytest.approx(drift + ((b_high - b) ** 2 + (a - a_low) ** 2) ** 0.5)
    assert 0.1 < low < drift < high


def judged(rollouts):
    """The same batch with a second verifier that knows the truth, which `verdicts` puts into the answers."""
    truth = torch.tensor([float(answer == "right") for answer in rollouts.answers])
    return replace(rollouts, second_rewards=truth.__getitem__)


def test_random_checks_tell_the_rates_where_verdicts_cannot():
    """A verifier that is a function of the answer; 240 checks of 4 batches, and the curation is that without them."""
    monitor = Monitor(curator=GRPO(), checks=60, check_window=200)
    for step in range(4):
        fooled = judged(where_one_wrong_answer_passes(verdicts(step, groups=60)))
        curation = monitor.curate(fooled, generator=torch.Generator().manual_seed(step))
        assert torch.equal(curation.rewards, fooled.rewards)
        assert curation.metrics["checks"] == 60
    metrics = curation.metrics
    assert metrics["check_windows"] == 1
    low, rate, high = with_ends(metrics, "checked_false_positive_rate")
    assert 0.15 < low < rate < high < 0.55
    assert low < 1 / 3 < high
    assert metrics["checked_false_negative_rate"] == 0
    assert math.isnan(metrics["false_positive_rate_low"])


def test_truth_values_tell_the_rates_whatever_the_two_rewards_are():
    fooled = judged(where_one_wrong_answer_passes(verdicts(0, groups=60)))
    truths = replace(fooled, second_rewards=lambda rows: [bool(each) for each in fooled.second_rewards(rows)])
    found = []
    for rollouts in (fooled, replace(truths, rewards=10 * truths.rewards)):
        monitor = Monitor(curator=GRPO(), checks=60, check_window=60)
        found.append(monitor.curate(rollouts, generator=torch.Generator().manual_seed(0)).metrics)
    for name in ("checked_false_positive_rate", "checked_false_negative_rate"):
        assert with_ends(found[0], name) == with_ends(found[1], name)


def test_truth_values_count_wrong_responses_with_a_bonus_as_wrong():
    """Two batches of wrong responses, half of them with a bonus of 0.1, and later ones with a right one in thirty."""
    monitor = Monitor(curator=GRPO(), checks=40, check_window=80)
    for right in (0, 0, 2, 2):
        rewards = torch.zeros(60)
        rewards[::2] = 0.1
        rewards[:right] += 1
        groups = torch.arange(10).repeat_interleave(6)
        batch = Rollouts(rewards=rewards, groups=groups, second_rewards=lambda rows: [False] * len(rows))
        metrics = monitor.curate(batch, generator=torch.Generator().manual_seed(right)).metrics
    assert metrics["check_windows"] == 2
    assert metrics["alarms"] == 0
    assert math.isnan(metrics["checked_false_negative_rate"])
    assert 0 < metrics["checked_false_positive_rate"] < 0.1


def test_a_bound_on_a_checked_rate_raises_an_alarm(caplog):
    monitor = Monitor(curator=GRPO(), checks=192, bounds={"checked_false_positive_rate": 0.2})
    metrics = monitor.curate(judged(verdicts(0, wrong=0.5))).metrics
    assert metrics["alarms"] == 1
    assert "checked_false_positive_rate is" in caplog.messages[0]


def test_what_the_verdicts_prove_by_hand():
    # Of two rewarded answers to a prompt one at least is wrong; of its four rows three then are, or more.
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 1, 0, 0, 1, 0]),
        groups=torch.tensor([0, 0, 0, 0, 1, 1]),
        answers=["a", "b", "c", "c", "d", "e"],
    )
    metrics = Monitor(curator=GRPO()).curate(rollouts).metrics
    # With a and d right, b, c, c and e are wrong, of which b was rewarded: one of four. So it is with b and d.
    assert metrics["least_false_positive_rate"] == pytest.approx(1 / 4)
    assert metrics["least_false_negative_rate"] == 0
    assert metrics["least_wrong_share"] == pytest.approx(1 / 6)


def test_nothing_is_proven_where_several_answers_may_be_right():
    metrics = Monitor(Denoise(geometry="none", answers="shared")).curate(verdicts(0, wrong=0.3)).metrics
    assert not any(name.startswith("least_") for name in metrics)


def test_checks_around_appeals_are_refused():
    with pytest.raises(ConfigError, match=r"monitor.checks: expected 0 around appeals"):
        Monitor(Chain([Appeals()]), checks=4)


def test_a_failing_second_verifier_is_counted_and_stops_nothing(caplog):
    monitor = Monitor(curator=GRPO(), checks=5)
    metrics = monitor.curate(replace(verdicts(0), second_rewards=lambda rows: "sorry")).metrics
    assert (metrics["checks"], metrics["appeals_unanswered"]) == (0, 5)
    assert "expected a list of verdicts, got str" in caplog.messages[0]


def test_an_alarm_of_the_random_checks_of_appeals_is_counted(caplog):
    monitor = Monitor(Appeals(Denoise(geometry="none"), budget=64, random_share=1.0))
    wrong = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    found = [monitor.curate(judged(verdicts(step, wrong=each))).metrics for step, each in enumerate(wrong)]
    assert found[3]["alarms"] == 0
    assert found[-1]["alarms"] == 1
    assert "the verifier accepts more wrong responses than at the start" in caplog.text


@pytest.mark.parametrize(
    ("inner", "name", "window"),
    [
        (Denoise(window=3), "correlation_drift", 3),
        (GeoAlign(scoring="cross_fit", projector=None), "pooled_new_group_accuracy_drift", 5),
    ],
)
def test_no_batch_is_in_both_windows_of_the_inner_curator(inner, name, window):
    monitor = Monitor(curator=inner, window=1)
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(2 * window, 192, 4, generator=draw)
    batches = [replace(verdicts(step), hidden=hidden) for step, hidden in enumerate(states)]
    found = [monitor.curate(batch, generator=draw).metrics for batch in batches]
    assert [name in each for each in found] == [False] * (2 * window - 1) + [True]


@pytest.mark.parametrize(("answers", "is_silent"), [([1.0, None], False), ([None, None], True)])
def test_a_session_says_that_no_verdict_came_only_where_none_did(answers, is_silent, caplog):
    session = CurationSession(Monitor(GRPO(), checks=2), seed=0)
    session.curate(replace(verdicts(0), second_rewards=lambda rows: answers))
    assert any("no verdict came" in message for message in caplog.messages) == is_silent
