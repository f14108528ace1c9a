import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest

from geoalign.files.rollout_step import RolloutStep
from geoalign.lab.compare.run_result import detection, snapshot

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


def test_areas_by_hand():
    found = detection([batch()])
    # In a pair are rows 0, 1, 2, 3, 7, 8: corrupted 0 and 7, so 2 x 4 = 8 comparisons.
    # score: .9 beats all four; .25 beats .2 and .1: 6 / 8. In order: .9 c, .6, .3, .25 c: precision (1/1 + 2/4) / 2.
    assert found["score"] == {"auroc": 6 / 8, "auprc": 0.75, "generations": 1}
    # pair count: 3 beats all four ones; 1 ties with all four: (4 + 4/2) / 8. Turned round: the rest.
    assert found["pair_count"]["auroc"] == 6 / 8
    assert found["fewest_pairs"]["auroc"] == 2 / 8
    # distance: group 7 has mean .25 (.75; .25, .25, .25), group 5 mean .5 (.5, .5): .75 beats 4, .5 beats 3, ties 1.
    assert found["distance"]["auroc"] == 7.5 / 8
    # Two rows were replaced, one of them corrupted; two of six rows in a pair are corrupted.
    assert found["precision_among_replaced"] == 1 / 2
    assert found["base_rate"] == 2 / 6


def test_areas_are_averaged_over_generations_that_hold_both_kinds():
    clean = dataclasses.replace(batch(), flipped=np.zeros(9, dtype=bool))
    # The score turned round gives 1 - 6/8 on the same batch.
    turned = dataclasses.replace(batch(), score=-batch().score)
    found = detection([batch(), clean, turned])
    assert found["score"]["auroc"] == pytest.approx((6 / 8 + 2 / 8) / 2)
    assert found["score"]["generations"] == 2
    assert found["base_rate"] == 4 / 18
    assert found["precision_among_replaced"] == 2 / 6


def test_nothing_is_said_where_nothing_is_known():
    changed = functools.partial(dataclasses.replace, batch())
    nothing = {"precision_among_replaced": None, "base_rate": None}
    assert detection([changed(flip_known=np.zeros(9, dtype=bool))]) == nothing
    assert detection([]) == nothing
    assert detection([changed(flipped=np.zeros(9, dtype=bool))]) == nothing | {"base_rate": 0.0}
    unscored = detection([changed(score=np.full(9, NAN))])
    assert "score" not in unscored
    assert unscored["pair_count"]["auroc"] == 6 / 8


def test_a_snapshot_has_every_row():
    found = snapshot(batch())
    assert found["step"] == 4
    assert found["corrupted"][4]
