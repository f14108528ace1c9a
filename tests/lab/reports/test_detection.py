"""Ranking of flipped rewards: pair counts, sum and mean, AUROC per step, flags; and why they may be undefined."""

import math

import numpy as np
import pytest

from geoalign.lab.analysis.run_detection import (
    FEWEST_PAIRS,
    GDI,
    MEAN_GDI,
    MOST_PAIRS,
    detect,
    detect_step,
    pairs_used,
    sum_and_mean,
)
from geoalign.lab.store.rollouts import Details, read_details
from geoalign.lab.store.run import read_run

NAN = math.nan


def test_mean_is_the_score_over_the_pairs_whichever_the_run_keeps(rollout_step):
    # Rewards 1, 0, 0 in one group: 2 pairs for the first row, 1 for the others.
    step = rollout_step(reward=[1, 0, 0], score=[3.0, 1.0, NAN])
    summed, mean = sum_and_mean(step, "sum")
    assert summed[:2].tolist() == [3, 1]
    assert mean[:2].tolist() == [1.5, 1]
    assert np.isnan(summed[2])
    assert np.isnan(mean[2])
    summed, mean = sum_and_mean(step, "mean")
    assert summed[:2].tolist() == [6, 1]
    assert mean[:2].tolist() == [3, 1]


def test_pairs_used_are_counted_in_the_details_where_there_are_some(rollout_step):
    # Rows 10, 11, 12; the pair (10, 12) was left out, so 10 is in one pair where its rewards would say two.
    step = rollout_step(reward=[1, 0, 0], row=[10, 11, 12])
    empty = np.empty((0, 2))
    details = Details(1, np.array([10]), np.array([11]), np.ones(1), np.ones(1), None, np.empty(0, int), empty, empty)
    assert pairs_used(step, details).tolist() == [1, 1, 0]
    assert pairs_used(step, None).tolist() == [2, 1, 1]


def test_one_step_by_hand(rollout_step):
    # One group, rewards 1, 0, 0, 0: pairs 3, 1, 1, 1; the first is flipped. GDI 4, 5, 1, 2: it beats two of three.
    # Mean GDI 4/3, 5, 1, 2: it beats one of three. The pair count puts it first, its negative last.
    step = rollout_step(reward=[1, 0, 0, 0], score=[4.0, 5, 1, 2], flipped=[True, False, False, False])
    found = detect_step(step, "sum")
    assert found.auroc == pytest.approx({GDI: 2 / 3, MEAN_GDI: 1 / 3, MOST_PAIRS: 1, FEWEST_PAIRS: 0})
    # Second in the order by GDI: precision 1/2 at the only gain in recall.
    assert found.precision[GDI] == pytest.approx(0.5)
    assert (found.flips, found.unscored_flips) == (1, 0)


def test_unscored_flips_are_counted_and_rows_of_unknown_truth_stay_out(rollout_step):
    step = rollout_step(
        reward=[1, 0, 0, 1, 3],
        score=[4.0, 1, 9, NAN, NAN],
        flipped=[True, False, False, True, False],
        flip_known=[True, True, False, True, True],
    )
    found = detect_step(step, "sum")
    # Row 2 has the highest score, but nothing says whether it was flipped; row 3 was, and has no score.
    assert found.auroc[GDI] == 1
    # Of the rows in a pair whose truth is known, 0 and 1 and 3 are in three pairs each, row 4 in four: the flipped
    # ones, 0 and 3, tie with 1 and lose to 4.
    assert found.auroc[MOST_PAIRS] == 0.25
    assert (found.flips, found.unscored_flips) == (2, 1)


def test_a_run_in_which_gdi_knows_the_flips(make_run):
    folder = make_run(steps=8)
    run = read_run(folder)
    details = {step: read_details(path) for step, path in run.details.items()}
    found = detect(run, {})
    rows = {row.name: row for row in found.rows}
    assert found.undefined == ""
    assert rows[GDI].auroc.low > 0.8
    assert rows[MOST_PAIRS].auroc.estimate + rows[FEWEST_PAIRS].auroc.estimate == pytest.approx(1)
    assert rows[GDI].steps == 8
    assert found.control == MOST_PAIRS
    assert found.gain.estimate == pytest.approx(rows[GDI].auroc.estimate - rows[MOST_PAIRS].auroc.estimate)
    assert found.gain.low > 0
    assert found.flag_precision.low > found.flags.base_rate
    # The generated details belong to other pairs, so they must change the mean GDI and nothing else.
    other = {row.name: row for row in detect(run, details).rows}
    assert other[GDI] == rows[GDI]
    assert other[MEAN_GDI] != rows[MEAN_GDI]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"curator": "grpo"}, "gives no scores"), ({"flip": 0.0}, "No reward of this run was flipped")],
)
def test_why_nothing_is_found(make_run, settings, message):
    assert message in detect(read_run(make_run(steps=2, **settings)), {}).undefined


def test_unknown_truth_and_absent_rollouts_are_told_apart(make_run, write_rows):
    folder = make_run(steps=1)
    write_rows(folder, 1, [{"reward": 1.0, "score": 1.0}, {"reward": 0.0, "score": 2.0}])
    assert "Nothing says which rewards are wrong" in detect(read_run(folder), {}).undefined
    write_rows(folder, 1, [{"reward": 1.0}, {"reward": 1.0}])
    assert "no group held two rollouts with different rewards" in detect(read_run(folder), {}).undefined
    (folder / "rollouts" / "step-000001.parquet").unlink()
    assert "holds no rollouts" in detect(read_run(folder), {}).undefined
