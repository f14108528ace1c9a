"""Whole curves: when they reach a value, and the other metric there; all by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from geoalign.lab.analysis.comparison.scores import at_equal, auroc_at_reward, step_of
from geoalign.lab.store.logs import Evaluation


def cell(proxy, gold=(), steps=(0, 10, 20, 40)):
    gold = gold or [math.nan] * len(proxy)
    lines = [
        Evaluation(step, "rl" if step else "before_rl", "dialogue", math.nan, None, 1, reward, utility, 1, {})
        for step, reward, utility in zip(steps, proxy, gold, strict=False)
    ]
    return SimpleNamespace(evaluations=tuple(lines))


def test_the_step_at_which_a_value_is_first_reached():
    rising = cell([0.0, 1.0, 2.0, 3.0])
    # 2.5 is half of the way from step 20 to step 40.
    assert step_of(rising, "reward", 2.5) == pytest.approx(30)
    assert step_of(rising, "reward", 0.0) == 0
    assert math.isnan(step_of(rising, "reward", 3.5))
    # It falls again: the first time counts, 0.5 / 2 of the way from step 0 to step 10.
    assert step_of(cell([0.0, 2.0, 0.0, 3.0]), "reward", 0.5) == pytest.approx(2.5)


def test_the_gold_utility_at_equal_proxy_reward():
    # 1.5 is reached at step 15, half of the way from 6 to 2.
    assert at_equal(cell([0.0, 1.0, 2.0, 3.0], [8.0, 6.0, 2.0, 1.0]), "reward", 1.5, "gold_utility") == pytest.approx(4)
    assert math.isnan(at_equal(cell([0.0, 1.0, 2.0, 3.0], [8.0, 6.0, 2.0, 1.0]), "reward", 9, "gold_utility"))
    assert math.isnan(at_equal(cell([0.0, 1.0, 2.0, 3.0]), "reward", 1.5, "gold_utility"))


def test_a_score_of_wrong_answers_ranks_the_two_rewards_in_opposite_directions():
    # Score = the answer is wrong. Reward 1: corrupted are the wrong answers, found. Reward 0: they are the right ones.
    wrong = np.array([1, 1, 0, 0, 1, 1, 0, 0], dtype=bool)
    reward = np.array([1, 0, 1, 0, 1, 0, 1, 0], dtype=float)
    corrupted = (reward == 1) == wrong
    snapshot = SimpleNamespace(score=wrong.astype(float), reward=reward, corrupted=corrupted)
    holder = SimpleNamespace(snapshots=(snapshot, SimpleNamespace(score=None, reward=None, corrupted=None)))
    assert auroc_at_reward(holder, 1) == 1
    assert auroc_at_reward(holder, 0) == 0
    assert math.isnan(auroc_at_reward(SimpleNamespace(snapshots=()), 1))
