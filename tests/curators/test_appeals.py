"""A second verifier, asked about the most informative rows alone; its verdicts are trusted rows of the batch."""

import math
from dataclasses import replace

import pytest
import torch

from geoalign import CURATORS, GRPO, Curator, Monitor, Rollouts
from geoalign.curators.appeals import Appeals
from geoalign.curators.choosers import CHOOSERS
from geoalign.curators.curator import identity
from geoalign.curators.denoise import Denoise
from geoalign.curators.session import agreement
from geoalign.errors import ConfigError, InputError
from geoalign.testing.synthetic import synthetic_rollouts


class Suspicious(Curator):
    """Scores the rows as it is told, keeps every reward, and notes each batch that it learns from."""

    config_class = type(None)
    optional = ("trusted",)

    def __init__(self, scores, log_odds):
        self.scores = torch.tensor(scores)
        self.log_odds = log_odds
        self.seen = []

    def curate(self, rollouts, *, generator=None, details=False):
        self.seen.append(rollouts)
        return replace(identity(rollouts), scores=self.scores.masked_fill(rollouts.rewards.isnan(), torch.nan))


def asked_about(rollouts, budget=2, second=None, log_odds=True, **fields):
    """The curation, the rows that were asked about, and the inner curator; unless told, every reward was wrong."""
    asked = []

    def every_reward_was_wrong(rows):
        return [1.0 - float(rollouts.rewards[row]) for row in rows]

    def ask(rows):
        asked.append(list(rows))
        return every_reward_was_wrong(rows) if second is None else second(rows)

    curator = Appeals(budget=budget, choose="informative", random_share=0.0)
    curator._inner = Suspicious([0.1, -2, 3, 0, 0.5, 2, -3, 1], log_odds)
    curation = curator.curate(replace(rollouts, second_rewards=ask, **fields))
    return curation, *asked, curator._inner


def batch():
    return Rollouts(
        rewards=torch.tensor([1.0, 1, 0, 0, 1, 1, 0, 1]),
        groups=torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]),
        answers=["7", "7", "7", "9", "3", "4", "5", "3"],
    )


def test_the_most_informative_rows_are_asked_about_within_the_budget():
    # n p (1 - p), one row of each answer first: 0 (3 x 0.249), 4 (2 x 0.235), 3 (0.25), 5 (0.105), ..., then 7, ...
    curation, asked, _ = asked_about(batch(), budget=3)
    assert asked == [0, 4, 3]
    assert curation.rewards.tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    assert curation.scores[asked].tolist() == pytest.approx([0.1, 0.5, 0])
    assert curation.anomalous.nonzero()[:, 0].tolist() == sorted(asked)
    assert curation.metrics["appeals"] == curation.metrics["overturned"] == curation.metrics["anomalous"] == 3
    # Rewards of more than two values are asked about by score, as where it is no log-odds.
    by_score = [2, 5, 7, 3, 6, 4, 0, 1]
    more_values = replace(batch(), rewards=torch.arange(8.0))
    _, asked, _ = asked_about(more_values, budget=8)
    assert asked == by_score
    _, asked, _ = asked_about(batch(), budget=8, log_odds=False)
    assert asked == by_score


def test_one_of_identical_responses_is_asked_about_for_all():
    # Rows 0 to 2 hold one response, of which row 0 is the least certain; in the other group the key is another's.
    keys = torch.tensor([1, 1, 1, 2, 1, 1, 3, 4])
    curation, asked, _ = asked_about(batch(), budget=2, response_keys=keys)
    assert asked == [0, 4]
    assert curation.rewards.tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    assert curation.metrics["appeals"] == 5
    assert curation.metrics["overturned_share"] == 4 / 5  # row 2 was refused before


def test_labelled_rows_and_rows_without_a_reward_are_not_asked_about():
    rewards = batch().rewards.index_fill(0, torch.tensor([5]), math.nan)
    rollouts = replace(batch(), rewards=rewards, trusted=torch.arange(8) == 2)
    _, asked, inner = asked_about(rollouts, budget=8)
    assert asked == [4, 3, 6, 0, 7, 1]  # the truth of answer 7 is known
    assert inner.seen[0].trusted.tolist() == [row != 5 for row in range(8)]


def test_what_the_second_verifier_cannot_score_stays_and_is_counted():
    curation, _, inner = asked_about(batch(), second=lambda rows: [None, math.nan])
    assert torch.equal(curation.rewards, batch().rewards)
    assert not inner.seen[0].trusted.any()
    assert (curation.metrics["appeals"], curation.metrics["appeals_unanswered"]) == (0, 2)
    assert math.isnan(curation.metrics["overturned_share"])
    appeals = Appeals(Denoise(geometry="none"), budget=2, random_share=0.0)
    with pytest.raises(InputError, match="expected 2 verdicts, got 1"):
        appeals.hear(replace(batch(), second_rewards=lambda rows: [1.0]))


def asked_with_draws(rollouts, seed=0, **settings):
    """The rows asked about by a curator that scores all rows alike but the last, which it suspects most."""
    asked = []

    def second(rows):
        asked.extend(rows)
        return [1.0 - float(rollouts.rewards[row]) for row in rows]

    curator = Appeals(**settings)
    curator._inner = Suspicious([0.0] * (len(rollouts) - 1) + [5.0], log_odds=False)
    generator = torch.Generator().manual_seed(seed)
    curation = curator.curate(replace(rollouts, second_rewards=second), generator=generator)
    return asked, curation


def test_a_part_of_the_budget_goes_to_rows_drawn_uniformly_and_the_rest_to_the_most_informative():
    drawn_first = []
    for seed in range(160):
        asked, curation = asked_with_draws(replace(batch(), answers=None), seed, budget=4, random_share=0.5)
        assert len(asked) == len(set(asked)) == 4
        # The most suspicious row is drawn, or else chosen first.
        assert 7 in asked[:3]
        assert curation.metrics["checks"] == 2
        drawn_first += asked[:2]
    # Each of 8 rows in a quarter of 160 draws; a deviation is sqrt(160 / 4 * 3 / 4), or 5.5.
    counts = torch.bincount(torch.tensor(drawn_first), minlength=8)
    assert (counts - 40).abs().max() < 22


def test_rows_that_hold_one_response_are_one_question_and_a_check_each():
    keys = torch.tensor([1, 1, 1, 1, 1, 1, 1, 1])
    asked, curation = asked_with_draws(replace(batch(), response_keys=keys), budget=2, random_share=0.5)
    # One row is drawn; its verdict holds for the four of its group, and the other group is the second question.
    assert len(asked) == 2
    assert curation.metrics["appeals"] == 8
    assert curation.metrics["checks"] == 1


def test_chosen_rows_never_enter_a_rate():
    """The second verifier finds only the row wrong that is chosen whenever it is not drawn."""
    rewards = torch.tensor([1.0, 0, 1, 0, 1, 0, 1, 1])
    rollouts = Rollouts(rewards=rewards, groups=torch.zeros(8, dtype=torch.long))
    truth = torch.tensor([1.0, 0, 1, 0, 1, 0, 1, 0])
    curator = Appeals(budget=2, random_share=0.5, check_window=200)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        curator._inner = Suspicious([0.0] * 7 + [5.0], log_odds=False)
        curation = curator.curate(replace(rollouts, second_rewards=truth.__getitem__), generator=generator)
    # One of the four wrong rows is accepted. If chosen rows counted, it would be nearly two of three checks.
    assert curation.metrics["check_windows"] == 1
    assert curation.metrics["checked_false_positive_rate"] == pytest.approx(0.25, abs=0.13)
    assert curation.metrics["checked_false_negative_rate"] == 0


def test_without_a_random_share_nothing_is_drawn():
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    curator = Appeals(Denoise(geometry="none"), budget=2, random_share=0.0)
    curation = curator.curate(replace(batch(), second_rewards=lambda rows: [1.0] * len(rows)), generator=generator)
    assert torch.equal(generator.get_state(), before)
    assert "checks" not in curation.metrics


def test_a_second_verifier_that_fails_leaves_its_questions_unanswered(caplog):
    def fails(rows):
        raise RuntimeError("no connection")

    rollouts = replace(batch(), second_rewards=fails)
    curator = Appeals(Denoise(geometry="none"), budget=4)
    found = [curator.curate(rollouts).metrics for _ in range(2)]
    assert [each["appeals_unanswered"] for each in found] == [4, 4]
    assert [each["appeals"] for each in found] == [0, 0]
    assert sum("no connection" in message for message in caplog.messages) == 1


def test_a_curator_that_reads_no_labels_is_refused():
    with pytest.raises(ConfigError, match=r"appeals: expected a curator that reads trusted rewards.*got GRPO"):
        Appeals(curator=CURATORS["grpo"]())
    with pytest.raises(ConfigError, match=r"appeals: expected a curator that scores rows.*got NoiseCorrected"):
        Appeals(curator=CURATORS["noise_corrected"]())
    # A verdict is on the whole reward: a component of it would keep the old one.
    with pytest.raises(ConfigError, match=r"and no components.*got Denoise"):
        Appeals(curator=CURATORS["denoise"](component="a"))


def test_verdicts_on_a_few_rows_recover_what_no_fit_can():
    """Wrong rewards that follow a direction of the states: 32 verdicts of 256 rows, batch after batch."""
    cosines = {}
    for name, curator in {"alone": Denoise(), "appeals": Appeals(curator=Denoise(), budget=32)}.items():
        found = []
        for seed in range(5):
            made = synthetic_rollouts(32, 8, 16, seed=seed, rewards="binary", corruption=0.0).rollouts
            true = made.rewards
            observed = torch.where(made.hidden[:, 3] > 1, 1.0, true)
            rollouts = replace(made, rewards=observed, true_rewards=true, second_rewards=true.__getitem__)
            found.append(agreement(curator.curate(rollouts), rollouts)["advantage_cosine"])
        cosines[name] = sum(found[2:]) / 3
    assert cosines["appeals"] > cosines["alone"] + 0.05, cosines


def test_a_verdict_that_differs_from_the_reward_by_rounding_overturns_nothing():
    # In float32 0.1 + 0.6 is 0.70000005.
    rollouts = replace(batch(), rewards=torch.tensor([0.1] * 8) + torch.tensor([0.6, 0, 0, 0, 0.6, 0, 0, 0]))
    second = torch.tensor([0.7, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]).tolist()
    curator = Appeals(curator="grpo", choose="random", budget=8)
    curation = curator.curate(replace(rollouts, second_rewards=lambda rows: [second[row] for row in rows]))
    assert curation.metrics["overturned"] == 1


@pytest.mark.parametrize("choose", CHOOSERS)
def test_truth_values_decide_alike_whatever_the_two_rewards_are(choose):
    """A verifier that pays -1 and 1, and a second one that says true and false, as Math-Verify does."""
    generator = torch.Generator().manual_seed(0)
    right = torch.rand(128, generator=generator) < 0.5
    observed = torch.where(torch.rand(128, generator=generator) < 0.3, ~right, right).float()
    zero_one = Rollouts(
        rewards=observed,
        groups=torch.arange(16).repeat_interleave(8),
        hidden=torch.randn(128, 4, generator=generator),
        answers=["right" if each else f"wrong {row % 2}" for row, each in enumerate(right.tolist())],
        second_rewards=lambda rows: [bool(right[row]) for row in rows],
    )
    opposite = replace(zero_one, rewards=2 * observed - 1)
    curations = []
    for rollouts in (zero_one, opposite):
        curator = Appeals(Denoise(geometry="none"), choose=choose, budget=13)
        curations.append(curator.curate(rollouts, generator=torch.Generator().manual_seed(1)))
    of_zero_one, of_opposite = curations
    assert of_zero_one.metrics["overturned"] > 0
    assert of_opposite.metrics["overturned"] == of_zero_one.metrics["overturned"]
    torch.testing.assert_close(of_opposite.rewards, 2 * of_zero_one.rewards - 1, atol=1e-4, rtol=0)


def test_a_bonus_among_wrong_responses_is_not_taken_for_a_right_verdict():
    """Only "8" is right; the answer that is asked about first has the bonus and is called wrong."""
    rollouts = Rollouts(
        rewards=torch.tensor([0.1, 0.1, 0.1, 0.0, 0.0, 0.1]),
        groups=torch.zeros(6, dtype=torch.long),
        answers=["7", "7", "7", "8", "9", "9"],
        second_rewards=lambda rows: [row == 3 for row in rows],
    )
    curator = Appeals(GRPO(), choose="majority", budget=6, random_share=0)
    # The right row gets what right rows get, and the others keep their bonus.
    assert curator.curate(rollouts).rewards.tolist() == pytest.approx([0.1, 0.1, 0.1, 1.0, 0.0, 0.1])


@pytest.mark.parametrize("ids", ["abcdef", "fedcba"])
def test_rows_that_are_not_asked_about_keep_their_bonus_whichever_row_was(ids):
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 1.1, 0.0, 0.0, 0.1, 0.1]),
        groups=torch.zeros(6, dtype=torch.long),
        answers=["7", "7", "7", "8", "8", "9"],
        ids=list(ids),
        second_rewards=lambda rows: [row < 3 for row in rows],
    )
    curation = Appeals(GRPO(), choose="majority", budget=6, random_share=0).curate(rollouts)
    assert curation.rewards.tolist() == pytest.approx([1.0, 1.1, 1.0, 0.0, 0.1, 0.1])


@pytest.mark.parametrize(("budget", "drawn"), [(1, 0), (2, 1), (3, 1), (8, 2), (10, 3)])
def test_a_quarter_of_the_budget_is_drawn_a_half_rounded_up_and_at_least_one_of_two(budget, drawn):
    made = synthetic_rollouts(4, 4, 2, seed=0, rewards="binary").rollouts
    ones = replace(made, second_rewards=lambda rows: [1.0] * len(rows))
    curation = Appeals(curator="grpo", choose="random", budget=budget).curate(ones)
    assert curation.metrics.get("checks", 0) == drawn
    assert curation.metrics["appeals_asked"] == budget


def checked_batch(rewards):
    """24 prompts with two answers each, of which the second verifier finds the later one right."""
    return Rollouts(
        rewards=torch.tensor(rewards),
        groups=torch.arange(24).repeat_interleave(2),
        answers=["7", "8"] * 24,
        second_rewards=lambda rows: [float(row % 2) for row in rows],
    )


def test_the_trial_does_not_warn_of_what_verdicts_put_right(caplog):
    # Nothing tells the rates but the checks: of one answer to each of 24 prompts, beside one that is not checked.
    curator = Appeals(Denoise(geometry="none", window=1), budget=24, random_share=0)
    found = [curator.curate(checked_batch([0.0, 1.0] * 24)).metrics["identified"] for _ in range(2)]
    assert found == [1, 1]
    assert caplog.messages == []


def test_an_alarm_of_the_curator_within_is_raised_once(caplog):
    # Of the two accepted answers to every other prompt one at least is wrong.
    within = Monitor(GRPO(), bounds={"least_wrong_share": 0.1})
    curation = Appeals(within, choose="random", budget=1).curate(checked_batch([1.0, 1.0, 0.0, 0.0] * 12))
    assert curation.metrics["alarms"] == 1
    assert len(caplog.messages) == 1
