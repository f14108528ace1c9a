"""Where verdicts do not say how far to believe them, rewards stay what they are, but for what rests on no rate."""

import logging
import math
from dataclasses import replace

import pytest
import torch
from denoise_batches import answered, repeating

from geoalign import Rollouts
from geoalign.curators.denoise import Denoise
from geoalign.curators.labelled_rollouts import with_labelled
from geoalign.intervals import Interval
from geoalign.method.groups import canonical_order
from geoalign.noise.channel import NoiseFit
from geoalign.noise.identification import (
    Identification,
    disputed,
    error_correlation,
    identification,
    observations_corrected_without_rates,
    slope_on_prior,
)
from geoalign.noise.posterior import infer
from geoalign.noise.rows import noisy_rows, sum_by_label
from geoalign.noise.trusted import ruled_out, truth_by_answer
from geoalign.noise.units import verdict_units


def posterior_of(rollouts):
    rows = noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=True)
    return rows, infer(rows, None, least_slope=0.3)


@pytest.mark.parametrize("geometry", ["states", "none"])
@pytest.mark.parametrize("wrong", [0.0, 0.2, 0.4])
def test_errors_that_repeat_with_the_answer_leave_the_rewards_bit_for_bit(wrong, geometry):
    """No answer is judged both ways: the same verdicts could come from a good verifier or from a poor one."""
    curator = Denoise(geometry=geometry)
    for seed in range(4):
        rollouts = repeating(seed, alike=True, wrong=wrong)
        curation = curator.curate(rollouts)
        assert torch.equal(curation.rewards, rollouts.rewards)
        assert curation.advantages is None
        assert curation.metrics["identified"] == 0
        assert math.isnan(curation.metrics["false_positive_rate"])


def test_independent_errors_are_corrected():
    curator = Denoise(geometry="none")
    for seed in range(4):
        rollouts = answered(seed, wrong=0.2)
        curation = curator.curate(rollouts)
    assert curation.metrics["identified"] == 1
    assert not torch.equal(curation.rewards, rollouts.rewards)
    assert curation.metrics["false_positive_rate"] == pytest.approx(0.2, abs=0.05)


def test_one_small_batch_is_too_little_to_tell():
    curation = Denoise(geometry="none").curate(answered(0, groups=5, wrong=0.4))
    assert curation.metrics["identified"] == 0
    assert curation.advantages is None


def test_the_correlation_of_errors_by_hand():
    """Two prompts, one answer each, judged 1 0 and 1 1. Of the fit only e_t (1 - e_t) = 0.25 for either truth matters.

    E = (2 + 2) 0.25 = 1, half from each prompt; M = 1 + 0. The correlation is 1 - 1 / 1 = 0, the residuals are
    M_g - E_g = 0.5 and -0.5, their norm 0.7071, times sqrt(2 / 1): a standard error of 1.
    """
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0, 1, 1]),
        groups=torch.tensor([0, 0, 1, 1]),
        answers=["a", "a", "b", "b"],
    )
    units = posterior_of(rollouts)[1].units
    half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    fit = NoiseFit(
        theta=units.prior_theta,
        error=torch.tensor(1.0).double(),
        replacement=half,
        correlation=half[0] * 0,
        values=half,
    )
    found = error_correlation(units, fit)
    assert found.estimate == pytest.approx(0)
    assert found.high == pytest.approx(12.706, abs=1e-3)  # Student's t on one degree of freedom
    assert found.low == pytest.approx(-12.706, abs=1e-3)


def test_the_slope_of_verdicts_on_the_prior_by_hand():
    """One prompt with answers a a a b, judged 1 1 0 0. By shares alone the odds are 3/4, 1/4 and, for neither, 1.

    The priors are 3/8 for the rows of a and 1/8 for b, with a mean of 5/16: 1/16 above it three times, 3/16 below it
    once. The slope is (1/16 + 1/16) / (3/256 + 9/256) = 8/3.
    """
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 1, 0, 0]), groups=torch.zeros(4, dtype=torch.long), answers=list("aaab")
    )
    posterior = posterior_of(rollouts)[1]
    units = posterior.units
    fit = NoiseFit(**posterior.fit)._replace(theta=units.prior_theta)
    assert slope_on_prior(units, fit) == pytest.approx(8 / 3)


@pytest.mark.parametrize("prompts", [3, 512])
def test_the_slope_on_a_prior_that_is_the_same_for_all_is_unknown(prompts):
    """All responses to a prompt give one answer; over many rows rounding makes the priors differ."""
    groups = torch.arange(prompts).repeat_interleave(16)
    rewards = (torch.rand(len(groups), generator=torch.Generator().manual_seed(0)) < 0.8).float()
    answers = ["a"] * len(groups)
    posterior = posterior_of(Rollouts(rewards=rewards, groups=groups, answers=answers))[1]
    assert math.isnan(slope_on_prior(posterior.units, NoiseFit(**posterior.fit)))


def test_a_fit_that_goes_on_from_an_earlier_one_reaches_the_fit_from_anew():
    """Verdicts were good once and are poor now: the error rates may not lag behind."""
    good = posterior_of(answered(0, wrong=0.0))[1]
    poor = posterior_of(answered(1, wrong=0.4))[1]
    after_good = poor.units.fit(good.fit)
    assert after_good.error_rates.tolist() == pytest.approx(
        poor.units.fit({}, rounds=1000).error_rates.tolist(), abs=0.01
    )


def test_the_log_likelihood_gain_by_hand():
    """One prompt with answers a a b, judged 1 1 0; both rates are 1/4 and both answers are as probable as neither.

    Right answers are a, b or none, 1/3 each: the verdicts have probability (9/16)(3/4), (1/16)(1/4) and (1/16)(3/4), in
    all 31/64 / 3. By chance two of three are accepted: (2/3)^2 (1/3) = 4/27. The ratio is 279/256.
    """
    rollouts = Rollouts(rewards=torch.tensor([1.0, 1, 0]), groups=torch.zeros(3, dtype=torch.long), answers=list("aab"))
    posterior = posterior_of(rollouts)[1]
    fit = NoiseFit(**posterior.fit)._replace(
        theta=torch.zeros(5, dtype=torch.double),
        error=torch.tensor(0.5).double(),
        replacement=torch.tensor([0.5, 0.5]).double(),
        correlation=torch.tensor(0.0).double(),
    )
    units = replace(posterior.units, weight=torch.ones(2).double())
    assert units.log_likelihood_gain(fit) == pytest.approx(math.log(279 / 256))
    # Half of the weight counts half.
    assert replace(units, weight=torch.full((2,), 0.5).double()).log_likelihood_gain(fit) == pytest.approx(
        math.log(279 / 256) / 2
    )


def test_nothing_is_recovered_where_nothing_was_judged():
    rollouts = replace(answered(0), rewards=torch.ones(256))
    assert math.isnan(Denoise(geometry="none").curate(rollouts).metrics["recovered"])


@pytest.mark.parametrize("seed", range(3))
def test_a_verifier_that_flips_coins_leaves_the_rewards_bit_for_bit(seed):
    curator = Denoise(geometry="none")
    for batch in range(4):
        rollouts = answered(10 * seed + batch, wrong=0.5)
        curation = curator.curate(rollouts)
        assert curation.metrics["identified"] == 0
        assert torch.equal(curation.rewards, rollouts.rewards)


def test_a_weight_at_its_bound_does_not_hold_the_others_back():
    """The states speak against the truth: their weight stays at 0, and the others are as without states."""
    rollouts = answered(0, wrong=0.2)
    order = canonical_order(rollouts.rewards, rollouts.groups)
    rows = noisy_rows(rollouts, order, answers=True)
    share = sum_by_label(torch.ones_like(rows.rewards), rows.answer)[rows.answer]
    against = (share.mean() - share) * 2
    with_states = verdict_units(rows, against, rows.rewards, rows.scored, exclusive=True).fit({}, rounds=1000)
    without = verdict_units(rows, 0 * against, rows.rewards, rows.scored, exclusive=True).fit({}, rounds=1000)
    assert with_states.theta[2] == 0
    assert torch.allclose(with_states.theta, without.theta, atol=1e-3)


@pytest.mark.parametrize(
    ("correlation", "found", "expected"),
    [
        ((0.0, -0.2, 0.2), {}, True),  # independent, and many verdicts
        ((0.0, -0.2, 0.2), {"expected_contradictions": 100.0}, False),  # few: 0.2 > 0.8 * 0.3^2
        ((0.0, -0.2, 0.2), {"expected_contradictions": 100.0, "informedness": 0.6}, True),  # 0.2 <= 0.8 * 0.6^2
        ((-0.1, -0.15, -0.05), {}, True),  # an exact share of wrong rewards in groups of eleven
        ((-0.5, -0.69, -0.31), {}, False),  # errors crowd on some answers
        ((0.1, 0.02, 0.18), {}, False),  # rarer contradictions than independent errors make
        ((0.3, -0.1, 0.7), {}, False),  # errors may well repeat
        ((math.nan, math.nan, math.nan), {}, False),
        ((0.0, -0.2, 0.2), {"log_likelihood_gain": 1.9}, False),  # hardly better than chance
        ((0.0, -0.2, 0.2), {"slope": 0.75}, True),  # 2.5 times as steep as 0.3
        ((0.0, -0.2, 0.2), {"slope": 0.76}, False),
        ((0.0, -0.2, 0.2), {"slope": math.nan}, True),  # a prior that is the same for all tells nothing
        ((1.0, 1.0, 1.0), {"known_answers": 19}, False),
        ((1.0, 1.0, 1.0), {"known_answers": 20}, True),
        ((1.0, 1.0, 1.0), {"known_answers": 20, "log_likelihood_gain": 1.9}, False),  # labels of other prompts alone
        ((1.0, 1.0, 1.0), {"known_answers": 20, "checked_answers": 20, "log_likelihood_gain": 1.9}, True),
        ((math.nan, math.nan, math.nan), {"has_answers": False}, True),
    ],
)
def test_what_identifies_the_rates(correlation, found, expected):
    told = {
        "expected_contradictions": 300.0,
        "informedness": 0.3,
        "log_likelihood_gain": 9.0,
        "slope": 0.3,
        "has_answers": True,
        "known_answers": 0,
        "checked_answers": 0,
    }
    assert Identification(Interval(*correlation), **{**told, **found}).identified == expected


@pytest.mark.parametrize("correlation", [(math.nan, math.nan, math.nan), (-0.1, -1.4, 1.2), (0.6, -0.4, 1.6)])
def test_where_contradictions_cannot_be_told_the_reason_is_that_verdicts_are_few(correlation):
    found = Identification(
        Interval(*correlation),
        expected_contradictions=3.0,
        informedness=0.3,
        log_likelihood_gain=9.0,
        slope=0.3,
        has_answers=True,
        known_answers=0,
        checked_answers=0,
    )
    assert "too few verdicts" in found.reason


def test_an_unknown_verdict_of_a_row_that_is_not_trusted_hides_no_truth():
    verdict = torch.tensor([1.0, math.nan], dtype=torch.float64)
    assert truth_by_answer(torch.tensor([True, False]), verdict, torch.zeros(2, dtype=torch.long)).tolist() == [1.0]


def test_trusted_rows_that_contradict_each_other_evenly_tell_nothing():
    trusted, verdict = torch.ones(2, dtype=torch.bool), torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert truth_by_answer(trusted, verdict, torch.zeros(2, dtype=torch.long)).isnan().all()


def unidentified(rewards, groups, **fields):
    rollouts = Rollouts(rewards=torch.tensor(rewards), groups=torch.tensor(groups), **fields)
    rows, posterior = posterior_of(rollouts)
    certain = observations_corrected_without_rates(rows, posterior, exclusive=True)
    order = canonical_order(rollouts.rewards, rollouts.groups).order
    return torch.empty_like(certain).index_copy_(0, order, certain).tolist()


def test_identical_responses_with_different_verdicts_keep_them_where_the_rates_are_unknown():
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 1, 0, 0, 1, 0]),
        groups=torch.zeros(6, dtype=torch.long),
        response_keys=torch.tensor([7, 7, 7, 1, 2, 3]),
        answers=list("aaabcd"),
    )
    curation = Denoise(geometry="none").curate(rollouts)
    assert curation.metrics["identified"] == 0
    assert torch.equal(curation.rewards, rollouts.rewards)
    assert curation.advantages is None


def test_a_checked_answer_speaks_for_its_rows_and_a_right_one_against_the_others():
    """In the first prompt answer a is checked and right, so b is wrong; in the second a is wrong, and b stays open."""
    found = unidentified(
        rewards=[1.0, 0, 1, 0, 0, 1, 1, 0],
        groups=[0, 0, 0, 0, 1, 1, 1, 1],
        answers=["a", "a", "b", "b"] * 2,
        trusted=torch.tensor([True, False, False, False] * 2),
    )
    assert found == [1, 1, 0, 0, 0, 0, 1, 0]


def praised_without_answer(wrong):
    """One rewarded response without an answer in each group of eight; errors on the others repeat with the answer."""
    rollouts = repeating(3, alike=True, wrong=wrong)
    first = torch.arange(256) % 8 == 0
    answers = [None if lacks else answer for lacks, answer in zip(first, rollouts.answers, strict=True)]
    return replace(rollouts, answers=answers, rewards=rollouts.rewards.masked_fill(first, 1.0)), first


def test_a_rewarded_response_without_an_answer_loses_its_reward():
    rollouts, first = praised_without_answer(0.4)
    curation = Denoise(geometry="none").curate(rollouts)
    assert curation.metrics["identified"] == 0
    assert curation.rewards[first].tolist() == [0.0] * 32
    assert torch.equal(curation.rewards[~first], rollouts.rewards[~first])


def test_nothing_is_concluded_from_a_missing_answer_where_it_is_kept_or_most_have_none():
    rollouts, first = praised_without_answer(0.4)
    kept = Denoise(geometry="none", unanswered="kept").curate(rollouts)
    assert torch.equal(kept.rewards, rollouts.rewards)
    assert not kept.anomalous[first].any()
    few = [answer if row % 8 < 3 else None for row, answer in enumerate(rollouts.answers)]
    few_have = Denoise(geometry="none").curate(replace(rollouts, answers=few))
    lacking = torch.tensor([answer is None for answer in few])
    assert torch.equal(few_have.rewards[lacking], rollouts.rewards[lacking])
    assert not few_have.anomalous[lacking].any()


def test_one_answer_in_a_batch_condemns_no_row_without_one():
    rollouts = Rollouts(
        rewards=(torch.rand(480, generator=torch.Generator().manual_seed(5)) < 0.6).float(),
        groups=torch.arange(480) // 8,
        answers=[None] * 3 + ["x^2"] + [None] * 476,
    )
    curation = Denoise(geometry="none").curate(rollouts)
    assert not curation.anomalous.any()
    assert torch.equal(curation.rewards, rollouts.rewards)


def test_a_verdict_that_nothing_disputes_is_not_flagged_where_the_rates_are_not_known():
    """Of 480 rows with verdicts at random 20 have an answer that can be read, the same one."""
    generator = torch.Generator().manual_seed(2)
    answered = set(torch.randperm(480, generator=generator)[:20].tolist())
    rollouts = Rollouts(
        rewards=torch.randint(0, 2, (480,), generator=generator).float(),
        groups=torch.arange(480) // 8,
        answers=["x" if row in answered else None for row in range(480)],
    )
    curation = Denoise(geometry="none").curate(rollouts)
    assert curation.metrics["identified"] == 0
    for row in curation.anomalous.nonzero()[:, 0].tolist():
        same = [other for other in answered if other // 8 == row // 8]
        assert len({float(rollouts.rewards[other]) for other in same}) == 2


@pytest.mark.parametrize(
    ("exclusive", "expected"),
    [
        (True, [1, 1, 1, 0, 0, 0, 0, 0]),
        (False, [1, 1, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_what_disputes_a_verdict(exclusive, expected):
    # Group 0: "7" has both verdicts, "8" is rewarded too, "9" is refused. Group 1: one rewarded answer, twice, and one
    # response without an answer.
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0, 1, 0, 1, 1, 0, 1]),
        groups=torch.arange(8) // 4,
        answers=["7", "7", "8", "9", "7", "7", "8", None],
    )
    order = canonical_order(rollouts.rewards, rollouts.groups)
    rows = noisy_rows(rollouts, order, answers=True)
    found = torch.zeros(8)
    found[order.order] = disputed(rows, rows.rewards, exclusive=exclusive).float()
    assert found.tolist() == expected


def test_answers_that_do_not_exclude_each_other_dispute_nothing():
    # Two rewarded answers to either prompt; those to the second one may both be right. A trusted row says that "7" is.
    rollouts = Rollouts(
        rewards=torch.ones(6),
        groups=torch.arange(6) // 3,
        answers=["7", "7", "8"] * 2,
        trusted=torch.tensor([True, False, False] * 2),
        shared_answers=torch.arange(6) >= 3,
    )
    order = canonical_order(rollouts.rewards, rollouts.groups)
    rows = noisy_rows(rollouts, order, answers=True)
    found = torch.zeros(2, 6)
    found[0, order.order] = disputed(rows, rows.rewards, exclusive=True).float()
    found[1, order.order] = ruled_out(rows, rows.rewards).float()
    assert found[0].tolist() == [1, 1, 1, 0, 0, 0]
    assert found[1].tolist() == [0, 0, 1, 0, 0, 0]


def test_trusted_rows_of_enough_answers_identify_the_rates():
    rollouts = repeating(0, alike=True, wrong=0.4)
    trusted = torch.arange(256) % 8 == 0
    rewards = torch.where(trusted, rollouts.true_rewards, rollouts.rewards)
    curation = Denoise(geometry="none").curate(replace(rollouts, rewards=rewards, trusted=trusted))
    assert curation.metrics["identified"] == 1
    assert not torch.equal(curation.rewards[~trusted], rewards[~trusted])


TEN_LABELLED = Rollouts(rewards=torch.tensor([1.0, 0.0] * 10), groups=torch.arange(20) // 2, answers=["7", "8"] * 10)
LABELLED = Rollouts(rewards=torch.tensor([1.0, 0.0]), groups=torch.zeros(2, dtype=torch.long), answers=["7", "8"])


@pytest.mark.parametrize("with_keys", [True, False])
def test_labelled_rollouts_of_every_batch_count_once(with_keys):
    """Twelve batches bring the same two answers: ten of them are in the window, which makes no twenty answers."""
    curator = Denoise(geometry="none")
    for seed in range(12):
        rollouts = repeating(seed, alike=True, wrong=0.4)
        keys = 1000 * seed + rollouts.groups if with_keys else None
        curation = curator.curate(with_labelled(replace(rollouts, hidden=None, prompt_keys=keys), LABELLED))
    assert curation.metrics["identified"] == 0


def test_labelled_prompts_with_the_same_answers_are_different_prompts():
    """Ten groups with one right and one wrong answer each: twenty answers in a batch."""
    batch = replace(repeating(0, alike=True, wrong=0.2), hidden=None)
    assert Denoise(geometry="none").curate(batch).metrics["identified"] == 0
    assert Denoise(geometry="none").curate(with_labelled(batch, TEN_LABELLED)).metrics["identified"] == 1


def test_labels_of_other_prompts_do_not_make_a_coin_a_verifier():
    batch = answered(0, wrong=0.5)
    curation = Denoise(geometry="none").curate(with_labelled(batch, TEN_LABELLED))
    assert curation.metrics["identified"] == 0
    assert torch.equal(curation.rewards[:256], batch.rewards)


def test_without_answers_nothing_is_tested_and_nothing_is_said_to_be_identified():
    """Identical responses that got both verdicts are believed unchecked."""
    batch = replace(answered(0, wrong=0.2), answers=None, response_keys=torch.arange(256) // 2)
    curation = Denoise(geometry="none").curate(batch)
    assert math.isnan(curation.metrics["identified"])
    assert not torch.equal(curation.rewards, batch.rewards)


@pytest.mark.parametrize(("keys", "identified"), [("none", 1), ("fresh", 1), ("the same", 0)])
def test_an_answer_counts_once_for_its_prompt(keys, identified):
    """Four batches with five checked rows each, of the same answers to prompts that are other ones, or the same."""
    curator = Denoise(geometry="none")
    rollouts = repeating(0, alike=True, wrong=0.4)
    trusted = (torch.arange(256) % 8 == 0) & (torch.arange(256) < 40)
    checked = replace(rollouts, hidden=None, trusted=trusted)
    for batch in range(4):
        prompts = {"none": None, "fresh": 32 * batch + rollouts.groups, "the same": rollouts.groups}[keys]
        curation = curator.curate(replace(checked, prompt_keys=prompts))
    assert curation.metrics["identified"] == identified


def test_what_trusted_rows_tell_outweighs_any_verdicts_where_the_rates_are_known():
    """In group 0 "7" is checked and right, though refused 15 times; "8" is rewarded, and so is a row without an answer.

    In group 1 "7" is checked and wrong, though rewarded 15 times. In each other group one of 20 verdicts is wrong.
    """
    right = torch.arange(40 * 20) % 20 < 16
    answers = ["7" if is_right else "8" for is_right in right.tolist()]
    rewards = right.float()
    rewards[::20] = 0.0
    answers[19] = None
    rewards[:20] = torch.tensor([1.0] + [0.0] * 15 + [1.0] * 4)
    rewards[20:40] = torch.tensor([0.0] + [1.0] * 15 + [0.0] * 4)
    trusted = torch.zeros(800, dtype=torch.bool)
    trusted[[0, 20]] = True
    rollouts = Rollouts(rewards=rewards, groups=torch.arange(800) // 20, answers=answers, trusted=trusted)
    curation = Denoise(geometry="none", unidentified="modelled").curate(rollouts)
    assert curation.rewards[:20].tolist() == [1.0] * 16 + [0.0] * 4
    assert curation.rewards[20:36].tolist() == [0.0] * 16


def test_two_answers_that_trusted_rows_show_to_be_right_are_both_right():
    """Two spellings of one answer: neither takes anything from the other, and both rule out "7"."""
    batch = answered(0)
    rollouts = Rollouts(
        rewards=torch.cat([batch.rewards, torch.tensor([1.0, 1, 1, 1, 0, 1, 0, 0])]),
        groups=torch.cat([batch.groups, torch.full((8,), 32)]),
        answers=[*batch.answers, "1/2", "1/2", "0.5", "0.5", "7", "7", "7", "7"],
        trusted=torch.isin(torch.arange(264), torch.tensor([256, 258])),
    )
    curation = Denoise(geometry="none", unidentified="modelled").curate(rollouts)
    assert curation.rewards[256:].tolist() == [1.0] * 4 + [0.0] * 4


def test_trusted_rows_alone_tell_no_rate_of_the_verifier():
    batch = answered(0)
    metrics = Denoise(geometry="none").curate(replace(batch, trusted=torch.ones(256, dtype=torch.bool))).metrics
    for name in ("true_positive_rate", "false_positive_rate", "informedness", "recovered"):
        assert math.isnan(metrics[name])


def test_a_verifier_that_judges_the_spelling_leaves_the_rewards_bit_for_bit():
    """On 3 of 10 prompts 4 of 5 correct responses are spelt in a way that the verifier refuses."""
    curator = Denoise(geometry="none")
    generator = torch.Generator().manual_seed(0)
    prompts, size = 96, 16
    groups = torch.arange(prompts).repeat_interleave(size)
    for _ in range(3):
        correct = torch.rand(len(groups), generator=generator) < torch.rand(prompts, generator=generator)[groups]
        two_spellings = (torch.rand(prompts, generator=generator) < 0.3)[groups]
        refused = two_spellings & (torch.rand(len(groups), generator=generator) < 0.8)
        wrong = torch.randint(5, groups.shape, generator=generator).tolist()
        answers = ["gold" if right else f"wrong {number}" for right, number in zip(correct, wrong, strict=True)]
        rewards = (correct & ~refused).float()
        curation = curator.curate(Rollouts(rewards=rewards, groups=groups, answers=answers))
        assert curation.metrics["identified"] == 0
        assert torch.equal(curation.rewards, rewards)


def test_half_repeated_errors_are_not_taken_for_independent_ones():
    """Each flip belongs to the answer or is made anew, half and half."""
    curator = Denoise(geometry="none")
    for seed in range(10):
        by_answer = repeating(seed, alike=True, wrong=0.4)
        anew = repeating(seed, alike=False, wrong=0.4)
        half = torch.rand(256, generator=torch.Generator().manual_seed(seed)) < 0.5
        rewards = torch.where(half, by_answer.rewards, anew.rewards)
        curation = curator.curate(replace(by_answer, rewards=rewards))
    assert curation.metrics["error_correlation_low"] > 0
    assert curation.metrics["identified"] == 0


def test_a_verifier_that_never_contradicts_itself_is_warned_of_once(caplog):
    curator = Denoise(geometry="none", window=3)
    with caplog.at_level(logging.WARNING):
        for seed in range(6):
            curator.curate(repeating(seed, alike=True))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "appeals" in caplog.text
    assert identification(*_units_and_fit(repeating(0, alike=True))).reason in caplog.text


def _units_and_fit(rollouts):
    _, posterior = posterior_of(rollouts)
    return posterior.units, NoiseFit(**posterior.fit)
