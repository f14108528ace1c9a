"""A second verifier, asked about the most informative rows alone; its verdicts are trusted rows of the batch."""

import math
from dataclasses import replace

import pytest
import torch

from geoalign import CURATORS, Curator, Rollouts
from geoalign.curators.appeals import Appeals
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
        self.scores, self.log_odds, self.seen = torch.tensor(scores), log_odds, []

    def curate(self, rollouts, *, generator=None, details=False):
        self.seen.append(rollouts)
        return replace(identity(rollouts), scores=self.scores.masked_fill(rollouts.rewards.isnan(), torch.nan))


def asked_about(rollouts, budget=2, second=None, log_odds=True, **fields):
    """The curation, the rows that were asked about, and the inner curator; unless told, every reward was wrong."""
    asked = []

    def ask(rows):
        asked.append(list(rows))
        return [1.0 - float(rollouts.rewards[row]) for row in rows] if second is None else second(rows)

    curator = Appeals(budget=budget, choose="informative")
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
    wide = replace(batch(), rewards=torch.arange(8.0))  # more than two values: by score, as where it is no log-odds
    assert asked_about(wide, 8)[1] == asked_about(batch(), 8, log_odds=False)[1] == [2, 5, 7, 3, 6, 4, 0, 1]


def test_one_of_identical_responses_is_asked_about_for_all():
    # Rows 0 to 2 hold one response, of which row 0 is the least certain; in the other group the key is another's.
    curation, asked, _ = asked_about(batch(), budget=2, response_keys=torch.tensor([1, 1, 1, 2, 1, 1, 3, 4]))
    assert asked == [0, 4]
    assert curation.rewards.tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    assert curation.metrics["appeals"] == 5


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
    with pytest.raises(InputError, match="expected 2 verdicts, got 1"):
        asked_about(batch(), second=lambda rows: [1.0])


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
