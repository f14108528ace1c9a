import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest

from geoalign.files.rollout_step import RolloutStep
from geoalign.lab.runs.detection import areas_of, marked_rows, whole_run
from geoalign.lab.runs.generations import CHANGED, generation_numbers
from geoalign.lab.runs.numbers import GENERATION, numbers_frame

NAN = float("nan")


def batch():
    """Group 7 has rewards 1, 0, 0, 0; group 3 is tied; group 5 has a reward that could not be scored, 1 and 0.

    Corrupted: the first row of each. That of group 3 is in no pair. Replaced: rows 0 and 8.
    """
    return RolloutStep(
        step=4,
        path=Path("none"),
        row=np.arange(9),
        group=np.array([7, 7, 7, 7, 3, 3, 5, 5, 5]),
        reward=np.array([1.0, 0.0, 0.0, 0.0, 1.0, 1.0, NAN, 1.0, 0.0]),
        true_reward=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, NAN, 0.0, 0.0]),
        flipped=np.array([True, False, False, False, True, False, False, True, False]),
        flip_known=np.ones(9, dtype=bool),
        score=np.array([0.9, 0.2, 0.3, 0.1, NAN, NAN, NAN, 0.25, 0.6]),
        anomalous=np.array([True, False, False, False, False, False, False, False, True]),
        source=np.array([1, 1, 2, 3, 4, 5, 6, 7, -1]),
        weight=np.ones(9),
    )


def numbers(generations):
    """The long frame of a run with these generations."""
    rows = []
    for step, generation in enumerate(generations):
        rows += [("", GENERATION, step, name, value) for name, value in generation_numbers(generation).items()]
    return numbers_frame(rows)


def test_areas_by_hand():
    found = generation_numbers(batch())
    # In a pair are rows 0, 1, 2, 3, 7, 8: corrupted 0 and 7, so 2 x 4 = 8 comparisons.
    # score: .9 beats all four; .25 beats .2 and .1: 6 / 8. In order: .9 c, .6, .3, .25 c: precision (1/1 + 2/4) / 2.
    assert (found["auroc/score"], found["auprc/score"]) == (6 / 8, 0.75)
    # pair count: 3 beats all four ones; 1 ties with all four: (4 + 4/2) / 8. Turned round: the rest.
    assert found["auroc/pair_count"] == 6 / 8
    assert found["auroc/fewest_pairs"] == 2 / 8
    # distance: group 7 has mean .25 (.75; .25, .25, .25), group 5 mean .5 (.5, .5): .75 beats 4, .5 beats 3, ties 1.
    assert found["auroc/distance"] == 7.5 / 8
    # Two rows were replaced, one of them corrupted; two of six rows in a pair are corrupted.
    rows = marked_rows(numbers([batch()]), CHANGED)
    assert (rows.precision, rows.base_rate, rows.recall) == (1 / 2, 2 / 6, 1 / 2)


def test_areas_are_averaged_over_generations_that_hold_both_kinds():
    clean = dataclasses.replace(batch(), flipped=np.zeros(9, dtype=bool))
    # The score turned round gives 1 - 6/8 on the same batch.
    turned = dataclasses.replace(batch(), score=-batch().score)
    frame = numbers([batch(), clean, turned])
    found = whole_run(areas_of(frame))["score"]
    assert found.auroc == pytest.approx((6 / 8 + 2 / 8) / 2)
    assert found.generations == 2
    rows = marked_rows(frame, CHANGED)
    assert (rows.base_rate, rows.precision) == (4 / 18, 2 / 6)


def test_nothing_is_said_where_nothing_is_known():
    changed = functools.partial(dataclasses.replace, batch())
    for nothing in ([changed(flip_known=np.zeros(9, dtype=bool))], []):
        rows = marked_rows(numbers(nothing), CHANGED)
        assert np.isnan([rows.precision, rows.base_rate, rows.recall]).all()
        assert whole_run(areas_of(numbers(nothing))) == {}
    clean = numbers([changed(flipped=np.zeros(9, dtype=bool))])
    assert marked_rows(clean, CHANGED).base_rate == 0
    # Rows of one kind alone are ranked by nothing.
    assert whole_run(areas_of(clean)) == {}
    unscored = whole_run(areas_of(numbers([changed(score=np.full(9, NAN))])))
    assert "score" not in unscored
    assert unscored["pair_count"].auroc == 6 / 8


def test_every_ranking_is_of_the_generations_that_the_curator_could_rank():
    other_flips = batch().flipped[::-1].copy()
    unscored = dataclasses.replace(batch(), score=np.full(9, NAN), flipped=other_flips)
    found = whole_run(areas_of(numbers([batch(), unscored])))
    assert found["pair_count"].generations == 1
    assert found["pair_count"].auroc == 6 / 8
