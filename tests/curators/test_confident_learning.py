"""The confident joint, and the probe that it is read off."""

import math

import numpy as np
import pytest
import torch

from geoalign import Rollouts
from geoalign.curators.baselines.probes import ConfidentLearning, confidently_wrong, linear_probability
from geoalign.lab.bench.synthetic import synthetic_rollouts


def test_the_confident_joint():
    # Labelled right: P(right) 0.9, 0.8, 0.1, mean 0.6. Labelled wrong: P(wrong) 0.9, 0.7, 0.2, mean 0.6.
    # The third is wrong with 0.9 >= 0.6, the last right with 0.8 >= 0.6. No other reaches the other class' threshold.
    rewards = torch.tensor([1.0, 1, 1, 0, 0, 0])
    right = torch.tensor([0.9, 0.8, 0.1, 0.1, 0.3, 0.8])
    flagged, thresholds = confidently_wrong(rewards, right)
    assert flagged.tolist() == [False, False, True, False, False, True]
    assert thresholds == pytest.approx((0.6, 0.6))


def test_between_the_thresholds_a_row_is_of_neither_class_and_beyond_both_of_the_likelier():
    # t1 = (0.9 + 0.5) / 2 = 0.7 and t0 = (0.9 + 0.5) / 2 = 0.7: a row of 0.5 reaches neither.
    assert not confidently_wrong(torch.tensor([1.0, 1, 0, 0]), torch.tensor([0.9, 0.5, 0.1, 0.5]))[0].any()
    # t1 = (0.2 + 0.4) / 2 = 0.3 and t0 = (0.5 + 0.3) / 2 = 0.4. The first row reaches wrong alone (0.2 and 0.8). The
    # second reaches both (0.4 and 0.6) and is likelier wrong. The third reaches both with 0.5 each: wrong, as labelled.
    # The last reaches right alone (0.7 and 0.3).
    flagged, _ = confidently_wrong(torch.tensor([1.0, 1, 0, 0]), torch.tensor([0.2, 0.4, 0.5, 0.7]))
    assert flagged.tolist() == [True, True, False, True]


def joint_of(rewards, right):
    """Row by row, over both classes, as the confident joint is defined."""
    probabilities = np.stack([1 - right, right], axis=1)
    thresholds = [probabilities[rewards == label, label].mean() for label in (0, 1)]
    found = []
    for label, row in zip(rewards, probabilities, strict=True):
        reached = [index for index in (0, 1) if row[index] >= thresholds[index] - 1e-6]
        guess = label if not reached else max(reached, key=lambda index: row[index])
        found.append(guess != label)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_against_a_naive_loop(seed):
    draw = np.random.default_rng(seed)
    rewards, right = (draw.random(40) < 0.6).astype(int), draw.random(40)
    flagged, _ = confidently_wrong(torch.tensor(rewards).double(), torch.tensor(right))
    assert flagged.tolist() == joint_of(rewards, right)


def test_nothing_to_judge_by():
    for rewards, right in (([1.0, 1.0], [0.2, 0.9]), ([1.0, 0.0, 0.0], [0.4] * 3), ([], [])):
        assert not confidently_wrong(torch.tensor(rewards), torch.tensor(right))[0].any()


def test_linear_probability():
    # q = 0.5: 0.5 + 0.5 z, clipped.
    z = torch.tensor([0.4, -1.0, 0.0, 3.0])
    assert linear_probability(torch.tensor([1.0, 0, 1, 0]), z).tolist() == pytest.approx([0.7, 0, 0.5, 1])


def test_planted_flips_are_flagged_more_often_than_others():
    curator, hits, flags, flips, rows = ConfidentLearning(), 0, 0, 0, 0
    for seed in range(4):
        planted = synthetic_rollouts(64, 8, 16, seed=seed, rewards="binary", corruption=0.2, signal=2.0)
        curation = curator.curate(planted.rollouts)
        hits += int((curation.anomalous & planted.corrupted).sum())
        flags += int(curation.anomalous.sum())
        flips, rows = flips + int(planted.corrupted.sum()), rows + len(planted.corrupted)
    assert hits / flags > 2 * flips / rows
    assert hits / flips > 0.5


def test_flags_are_rectified_and_scores_are_probabilities():
    rollouts = synthetic_rollouts(32, 8, 16, seed=0, rewards="binary", corruption=0.2).rollouts
    curation = ConfidentLearning().curate(rollouts)
    assert 0 < curation.anomalous.sum() < len(rollouts) / 2
    known = ~curation.scores.isnan()
    assert curation.scores[known].min() >= 0
    assert curation.scores[known].max() <= 1
    assert curation.metrics["zero_weighted"] > 0
    replaced = ConfidentLearning(strategy="replace").curate(rollouts, generator=torch.Generator().manual_seed(0))
    assert torch.equal(replaced.anomalous, curation.anomalous)
    assert not replaced.anomalous[replaced.source[replaced.replaced]].any()


def test_one_group_alone_cannot_be_predicted():
    draw = torch.Generator().manual_seed(0)
    batch = Rollouts(
        rewards=torch.tensor([1.0, 0.0, 0.0, math.nan]),
        groups=torch.zeros(4, dtype=torch.long),
        hidden=torch.randn(4, 3, generator=draw),
    )
    curation = ConfidentLearning().curate(batch)
    assert not curation.anomalous.any()
    assert curation.metrics["zero_spread"] == 1
