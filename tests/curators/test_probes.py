"""Rewards held against fits on hidden states: centroids, the confident joint, agreement, labelled rows."""

import math

import pytest
import torch

from geoalign import Rollouts
from geoalign.curators.baselines.labelled import LabelledProbe, logistic_log_odds
from geoalign.curators.baselines.probes import NearestCentroid, ScoreAgreement, agreeing_rows, confidently_wrong
from geoalign.testing.synthetic import synthetic_rollouts

# Two groups about (10, 0) and (0, 10); their right rows lie at (+1, 0) and (+3, 0) from their means.
FIRST = Rollouts(
    rewards=torch.tensor([1.0, 0.0, 1.0, 0.0]),
    groups=torch.tensor([0, 0, 1, 1]),
    hidden=torch.tensor([[11.0, 0.0], [9.0, 0.0], [3.0, 10.0], [-3.0, 10.0]]),
)


def one_group(rewards, hidden):
    return Rollouts(
        rewards=torch.tensor(rewards),
        groups=torch.zeros(len(rewards)).long(),
        hidden=torch.tensor(hidden),
    )


def test_the_first_batch_stays_and_the_next_is_judged_by_it():
    curator = NearestCentroid()
    first = curator.curate(FIRST)
    assert torch.equal(first.rewards, FIRST.rewards)
    assert first.scores.isnan().all()
    # Centroids: ((1, 0) + (3, 0)) / 2 = (2, 0) for success, (-2, 0) for failure. The states' mean is (5, 5), so they
    # are (1, 4), (-1, -4) and (0, 0): the first is right, the second wrong, the third halfway and stays.
    second = one_group([0.0, 1.0, 1.0], hidden=[[6.0, 9.0], [4.0, 1.0], [5.0, 5.0]])
    curation = curator.curate(second)
    assert curation.rewards.tolist() == [1, 0, 1]
    assert curation.anomalous.tolist() == [True, True, False]
    # |(1, 4) - (-2, 0)| - |(1, 4) - (2, 0)| = 5 - sqrt 17.
    nearer_by = 5 - math.sqrt(17)
    assert curation.scores.tolist() == pytest.approx([nearer_by, nearer_by, 0])
    assert curation.metrics["changed_rewards"] == 2


def test_a_batch_is_judged_before_it_is_learned_from():
    """The second batch contradicts the first: by itself it would say the opposite."""
    curator = NearestCentroid()
    curator.curate(FIRST)
    second = one_group([0.0, 1.0], hidden=[[100.0, 0.0], [-100.0, 0.0]])
    assert curator.curate(second).rewards.tolist() == [1, 0]
    # Now (100, 0) counts as a failure: sums 0.9 * 4 - 100 over 0.9 * 2 + 1 rows are far below 0 for success.
    third = one_group([0.0, 1.0], hidden=[[1.0, 0.0], [-1.0, 0.0]])
    assert curator.curate(third).rewards.tolist() == [0, 1]


def test_groups_of_equal_rewards_enter_no_centroid_but_are_judged():
    curator = NearestCentroid()
    other = NearestCentroid()
    curator.curate(FIRST)
    other.curate(FIRST)
    equal = one_group([1.0, 1.0], hidden=[[4.0, 0.0], [2.0, 0.0]])
    assert curator.curate(equal).rewards.tolist() == [1, 0]
    # One batch older, and not changed otherwise: 0.9 of sums and of numbers.
    torch.testing.assert_close(curator.state_dict()["sums"], 0.9 * other.state_dict()["sums"])
    torch.testing.assert_close(curator.state_dict()["counts"], 0.9 * other.state_dict()["counts"])


def test_the_confident_joint():
    # Labelled right: P(right) 0.9, 0.8, 0.1, mean 0.6. Labelled wrong: P(wrong) 0.9, 0.7, 0.2, mean 0.6.
    # The third is wrong with 0.9 >= 0.6, the last right with 0.8 >= 0.6. No other reaches the other class' threshold.
    rewards = torch.tensor([1.0, 1, 1, 0, 0, 0])
    right = torch.tensor([0.9, 0.8, 0.1, 0.1, 0.3, 0.8])
    flagged, thresholds = confidently_wrong(rewards, right)
    assert flagged.tolist() == [False, False, True, False, False, True]
    assert thresholds == pytest.approx((0.6, 0.6))
    # Means 1.1 / 3 and 0.25: the first two and the fourth reach both, and the more probable class counts.
    rewards = torch.tensor([1.0, 1, 1, 0, 0])
    right = torch.tensor([0.6, 0.45, 0.05, 0.55, 0.95])
    flagged, _ = confidently_wrong(rewards, right)
    assert flagged.tolist() == [False, True, True, True, True]


def test_the_lowest_of_the_right_and_the_highest_of_the_wrong_go():
    # Right rows 0 to 3 with scores 3, 1, 4, 2: the two best are 0 and 2. Wrong rows 4 and 5: both are kept of four.
    rewards = torch.tensor([1.0, 1, 1, 1, 0, 0])
    scores = torch.tensor([3.0, 1, 4, 2, 9, -9])
    assert agreeing_rows(rewards, scores, 4).tolist() == [0, 2, 4, 5]
    # Of three, two right and one wrong: the one of the lowest score.
    assert agreeing_rows(rewards, scores, 3).tolist() == [0, 2, 5]
    assert agreeing_rows(rewards, scores, 5).tolist() == [0, 2, 3, 4, 5]
    assert agreeing_rows(1 - rewards, -scores, 4).tolist() == [0, 2, 4, 5]
    # Rows of one kind, and no more than are kept, stay whole.
    assert agreeing_rows(torch.ones(3), scores[:3], 2).tolist() == [0, 1, 2]
    of_both_kinds = torch.tensor([1.0, 0, 1])
    assert agreeing_rows(of_both_kinds, scores[:3], 3).tolist() == [0, 1, 2]


def test_half_of_each_group_is_kept_and_flips_go_first():
    curator = ScoreAgreement()
    for seed in range(4):
        planted = synthetic_rollouts(64, 8, 16, seed=seed, rewards="binary", corruption=0.2, signal=2.0)
        curation = curator.curate(planted.rollouts)
    rewards = planted.rollouts.rewards.view(64, 8)
    kept_groups = planted.rollouts.groups[curation.source]
    unequal = (rewards.amax(1) > rewards.amin(1)).tolist()
    assert torch.bincount(kept_groups).tolist() == [4 if mixed else 8 for mixed in unequal]
    left_out = torch.ones(len(planted.corrupted), dtype=torch.bool)
    left_out[curation.source] = False
    flipped = planted.corrupted.float()
    assert flipped[left_out].mean() > 2 * flipped[~left_out].mean()


def test_without_a_prediction_everything_stays():
    batch = Rollouts(
        rewards=torch.tensor([1.0, 0.0, 0.0, 1.0]),
        groups=torch.zeros(4, dtype=torch.long),
        hidden=torch.randn(4, 3, generator=torch.Generator().manual_seed(0)),
    )
    curator = ScoreAgreement()
    assert curator.curate(batch).source.tolist() == [0, 1, 2, 3]
    # It has learned from it all the same.
    assert len(curator.curate(batch).source) == 2


def world(rows=400, d=8, labels=100, seed=0):
    """Groups of 8; a row is right where the first of d coordinates is above 0; half of the wrong ones are rewarded."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, d, generator=generator)
    right = hidden[:, 0] > 0
    rewarded = right | (torch.rand(rows, generator=generator) < 0.5)
    trusted = torch.arange(rows) < labels
    rewards = torch.where(trusted, right, rewarded).float()
    return Rollouts(rewards=rewards, groups=torch.arange(rows) // 8, hidden=hidden, trusted=trusted), right


def test_the_logistic_fit_is_the_minimum_of_its_loss():
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    positive = torch.tensor([True, True, False, False, False, True, False, False, False])
    # Both kinds have weight 9/2: 3/2 for each of three, 3/4 for each of six. Penalty 0.5 x 4 / 2 |w|^2.
    weights = torch.where(positive, 1.5, 0.75)
    w = torch.zeros(5, dtype=torch.float64, requires_grad=True)

    def loss():
        z = states @ w[:4] + w[4]
        of_rows = torch.nn.functional.softplus(torch.where(positive, -z, z))
        return (weights * of_rows).sum() + w[:4].square().sum()

    optimizer = torch.optim.LBFGS([w], max_iter=200, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)
    expected = states @ w[:4].detach() + w[4].detach()
    torch.testing.assert_close(logistic_log_odds(states, positive, states, penalty=0.5), expected, atol=1e-4, rtol=1e-4)


def test_rewarded_rows_that_the_probe_calls_bad_are_screened_and_no_others():
    rollouts, right = world()
    curation = LabelledProbe().curate(rollouts)
    wrong = (rollouts.rewards == 1) & ~right & ~rollouts.trusted
    hit = curation.anomalous
    assert not hit[rollouts.trusted | (rollouts.rewards == 0)].any()
    assert float(hit[wrong].float().mean()) > 0.85
    assert float(hit[~wrong].float().mean()) < 0.05
    assert torch.equal(curation.weights == 0, hit)
    assert curation.scores[rollouts.trusted].isnan().all()
    dropped = LabelledProbe(strategy="drop").curate(rollouts)
    assert dropped.source.tolist() == (~hit).nonzero()[:, 0].tolist()
    # The score of a row that was refused is the log-odds that it was wrong to: low where the probe calls it bad.
    refused = (rollouts.rewards == 0) & ~rollouts.trusted
    assert float((curation.scores[refused] < 0).float().mean()) > 0.9


def test_the_penalty_subtracts_the_probability_from_every_open_reward():
    rollouts, _ = world()
    screened = LabelledProbe().curate(rollouts)
    lowered = LabelledProbe(strategy="penalty", coefficient=2.0).curate(rollouts)
    open_rows = ~rollouts.trusted
    # In the upper half the score is the log-odds of being bad, in the lower its opposite.
    odds = torch.where(rollouts.rewards == 1, screened.scores, -screened.scores)[open_rows]
    expected = rollouts.rewards[open_rows] - 2 * torch.sigmoid(odds)
    torch.testing.assert_close(lowered.rewards[open_rows], expected)
    assert torch.equal(lowered.rewards[rollouts.trusted], rollouts.rewards[rollouts.trusted])


def test_without_labels_of_either_kind_nothing_changes():
    rollouts, _ = world(rows=64, labels=0)
    curation = LabelledProbe().curate(rollouts)
    assert torch.equal(curation.rewards, rollouts.rewards)
    assert (curation.weights == 1).all()
    assert curation.metrics["fitted"] == 0
    assert curation.scores.isnan().all()
