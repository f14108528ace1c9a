"""Verdicts of the nearer centroid of earlier batches."""

import math

import pytest
import torch

from geoalign import Rollouts
from geoalign.curators.baselines.probes import NearestCentroid, failure_margin
from geoalign.errors import InputError
from geoalign.lab.bench.synthetic import synthetic_rollouts

# Two groups about (10, 0) and (0, 10); their right rows lie at (+1, 0) and (+3, 0) from their means.
FIRST = Rollouts(
    rewards=torch.tensor([1.0, 0.0, 1.0, 0.0]),
    groups=torch.tensor([0, 0, 1, 1]),
    hidden=torch.tensor([[11.0, 0.0], [9.0, 0.0], [3.0, 10.0], [-3.0, 10.0]]),
)


def second(rewards, hidden):
    return Rollouts(rewards=torch.tensor(rewards), groups=torch.zeros(len(rewards)).long(), hidden=torch.tensor(hidden))


def test_the_first_batch_stays_and_the_next_is_judged_by_it():
    curator = NearestCentroid()
    first = curator.curate(FIRST)
    assert torch.equal(first.rewards, FIRST.rewards)
    assert first.scores.isnan().all()
    # Centroids: ((1, 0) + (3, 0)) / 2 = (2, 0) for success, (-2, 0) for failure. The states' mean is (5, 5), so they
    # are (1, 4), (-1, -4) and (0, 0): the first is right, the second wrong, the third halfway and stays.
    curation = curator.curate(second([0.0, 1.0, 1.0], [[6.0, 9.0], [4.0, 1.0], [5.0, 5.0]]))
    assert curation.rewards.tolist() == [1, 0, 1]
    assert curation.anomalous.tolist() == [True, True, False]
    # |(1, 4) - (-2, 0)| - |(1, 4) - (2, 0)| = 5 - sqrt 17.
    assert curation.scores.tolist() == pytest.approx([5 - math.sqrt(17), 5 - math.sqrt(17), 0])
    assert curation.metrics["changed_rewards"] == 2


def test_a_batch_is_judged_before_it_is_learned_from():
    """The second batch contradicts the first: by itself it would say the opposite."""
    curator = NearestCentroid()
    curator.curate(FIRST)
    assert curator.curate(second([0.0, 1.0], [[100.0, 0.0], [-100.0, 0.0]])).rewards.tolist() == [1, 0]
    # Now (100, 0) counts as a failure: sums 0.9 * 4 - 100 over 0.9 * 2 + 1 rows are far below 0 for success.
    assert curator.curate(second([0.0, 1.0], [[1.0, 0.0], [-1.0, 0.0]])).rewards.tolist() == [0, 1]


def test_groups_of_equal_rewards_enter_no_centroid_but_are_judged():
    curator, other = NearestCentroid(), NearestCentroid()
    curator.curate(FIRST)
    other.curate(FIRST)
    assert curator.curate(second([1.0, 1.0], [[4.0, 0.0], [2.0, 0.0]])).rewards.tolist() == [1, 0]
    # One batch older, and not changed otherwise: 0.9 of sums and of numbers.
    torch.testing.assert_close(curator.state_dict()["sums"], 0.9 * other.state_dict()["sums"])
    torch.testing.assert_close(curator.state_dict()["counts"], 0.9 * other.state_dict()["counts"])


def test_unscored_rows_stay_unscored():
    curator = NearestCentroid()
    curator.curate(FIRST)
    curation = curator.curate(second([math.nan, 1.0, 0.0], [[1.0, 0.0], [2.0, 0.0], [-3.0, 0.0]]))
    assert curation.rewards[0].isnan()
    assert curation.scores[0].isnan()
    assert curation.weights.tolist() == [0, 1, 1]


def test_margins_against_a_naive_loop_and_rotations():
    draw = torch.Generator().manual_seed(0)
    states, success, failure = (torch.randn(*shape, generator=draw) for shape in ((7, 5), (5,), (5,)))
    naive = [math.dist(x, success.tolist()) - math.dist(x, failure.tolist()) for x in states.tolist()]
    assert failure_margin(states, success, failure).tolist() == pytest.approx(naive, abs=1e-5)
    rotation = torch.linalg.qr(torch.randn(5, 5, generator=draw))[0]
    turned = failure_margin(states @ rotation, success @ rotation, failure @ rotation)
    assert turned.tolist() == pytest.approx(naive, abs=1e-5)


def test_planted_flips_are_found():
    curator = NearestCentroid()
    for seed in range(4):
        planted = synthetic_rollouts(64, 8, 16, seed=seed, rewards="binary", corruption=0.35)
        curation = curator.curate(planted.rollouts)
    true = torch.where(planted.corrupted, 1 - planted.rollouts.rewards, planted.rollouts.rewards)
    assert (curation.rewards == true).float().mean() > (planted.rollouts.rewards == true).float().mean()


def test_what_is_refused():
    curator = NearestCentroid()
    curator.curate(FIRST)
    with pytest.raises(InputError, match="hidden: expected 2 columns as earlier, got 3"):
        curator.curate(second([1.0, 0.0], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
