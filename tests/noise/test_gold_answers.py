"""The posterior that a gold answer is wrong: hand-worked likelihoods, and what it must and must not depend on."""

import numpy as np
import pytest

from geoalign.noise import gold_answers
from geoalign.noise.gold_answers import AnswerCounts, chance_of_wrong_gold

EASY = [AnswerCounts(gold=7, proposed=0, others=(1,))] * 60


def counts(gold, proposed, *others):
    return AnswerCounts(gold=gold, proposed=proposed, others=others)


def chances_beside(usual, *prompts):
    """The chance of each of these prompts that its gold answer is wrong, in a run of the usual ones."""
    return chance_of_wrong_gold([*usual, *prompts])[len(usual) :]


def test_the_likelihoods_of_both_explanations_by_hand(monkeypatch):
    """Of 4 answers 3 agree and 1 is the gold answer; p = 3/4, theta = 1.

    H0: one right of 4, (3/4) (1/4)^3; three wrong ones agree, 2! Gamma(1) / Gamma(4) = 1/3.
    H1: three right of 4, (3/4)^3 (1/4); the wrong one, 1; the gold answer is drawn to be it, 1 / (1 + 1).
    """
    monkeypatch.setattr(gold_answers, "P_GRID", np.array([0.75]))
    monkeypatch.setattr(gold_answers, "THETA_GRID", np.array([1.0]))
    prompt = counts(1, 3)
    assert np.exp(gold_answers._gold_right(prompt)) == pytest.approx(3 / 256 / 3)
    assert np.exp(gold_answers._proposed_right(prompt)) == pytest.approx(27 / 256 / 2)


def test_without_a_proposed_answer_no_gold_answer_is_doubted():
    assert chance_of_wrong_gold([]).tolist() == []
    assert chance_of_wrong_gold(EASY).tolist() == [0.0] * 60


def test_agreement_that_is_refused_is_the_more_suspicious_the_more_agree():
    three_agree = counts(0, 3, 1, 1, 1, 1, 1)
    five_agree = counts(0, 5, 1, 1, 1)
    all_agree = counts(0, 8)
    found = chances_beside(EASY, three_agree, five_agree, all_agree)
    assert found[0] < found[1] < found[2]
    assert found[2] > 0.8


def test_a_gold_answer_that_some_give_is_less_suspicious():
    without, with_gold = chances_beside(EASY, counts(0, 5, 1, 1, 1), counts(3, 5))
    assert with_gold < without


def test_where_most_prompts_are_hard_agreement_says_less():
    hard = [counts(1, 0, 4, 2, 1)] * 60
    all_agree = counts(0, 8)
    assert chances_beside(hard, all_agree)[0] < chances_beside(EASY, all_agree)[0]


def test_the_order_of_prompts_is_nothing_to_it():
    prompts = [*EASY, counts(0, 8), counts(1, 5, 2), counts(0, 4, 4)]
    assert chance_of_wrong_gold(prompts[::-1])[::-1] == pytest.approx(chance_of_wrong_gold(prompts))
