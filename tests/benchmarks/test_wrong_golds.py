import numpy as np
from benchmarks.wrong_golds import AT, RANKINGS, made_file, precision


def test_of_a_good_policy_four_of_five_first_gold_answers_are_wrong():
    rng = np.random.default_rng(0)
    file = made_file(rng, strength=0.85, share=0.1, kind="plausible", flips=0.0)
    for name, ranking in RANKINGS.items():
        assert precision(ranking(file), file.wrong, rng) >= 0.8, name


def test_ties_are_broken_by_chance():
    wrong = np.arange(100) < 50
    found = [precision(np.zeros(100), wrong, np.random.default_rng(seed)) for seed in range(200)]
    assert 0.45 < np.mean(found) < 0.55
    assert AT == 20
