import json
import math

import numpy as np
import pytest

from geoalign.errors import RunFolderError
from geoalign.lab.runs.numbers import numbers_of, series_of
from geoalign.lab.runs.reading import Evaluation, accuracy_of_evaluation, read_run


def test_a_whole_run_is_read(make_run):
    folder = make_run(steps=4)
    run = read_run(folder)
    numbers = numbers_of(run)
    assert run.finished
    assert [step.step for step in run.rollouts] == [1, 2, 3, 4]
    assert list(run.details) == [1, 2, 4]
    assert run.curator_name == "geoalign"
    assert series_of(numbers, "reward").steps.tolist() == [1, 2, 3, 4]
    assert series_of(numbers, "reward").values[0] == pytest.approx(run.rollouts[0].reward.mean())
    # null at every step: no series; null in the first step: three points.
    assert len(series_of(numbers, "kl")) == 0
    assert series_of(numbers, "new_group_accuracy").steps.tolist() == [2, 3, 4]
    assert run.evaluations[0].correct == 60


def test_series_takes_the_last_of_equal_steps(make_run):
    folder = make_run(steps=2)
    lines = [
        {"stage": "rl", "step": 1, "reward": 0.1},
        {"stage": "rl", "step": 1, "reward": 0.2},
        {"stage": "rl", "step": 3, "reward": None},
        {"stage": "rl", "step": 2, "reward": 0.5, "name": "text is no number", "flag": True},
    ]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    series = series_of(numbers_of(read_run(folder)), "reward")
    assert series.steps.tolist() == [1, 2]
    assert series.values.tolist() == [0.2, 0.5]
    assert "flag" not in read_run(folder).metrics[3].values


def test_only_true_reward_and_corrupted_tell_flips(make_run, write_rows):
    folder = make_run(steps=1)
    rows = [
        {"reward": 1.0, "true_reward": 0.0},  # differs: flipped
        {"reward": 1.0, "true_reward": 1.0},  # equal: known not to be
        {"reward": 1.0, "true_reward": None},  # not known
        {"reward": None, "true_reward": 1.0},  # no reward to compare: not known
        {"reward": 0.5, "true_reward": None, "corrupted": True},  # the column alone says so
        {"reward": 0.5, "true_reward": None, "corrupted": False},
    ]
    write_rows(folder, 1, rows)
    step = read_run(folder).rollouts[0]
    assert step.flip_known.tolist() == [True, True, False, False, True, True]
    assert (step.flipped & step.flip_known).tolist() == [True, False, False, False, True, False]
    assert np.isnan(step.reward[3])


def test_a_truncated_last_line_is_left_out(make_run):
    folder = make_run(steps=3)
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    assert series_of(numbers_of(read_run(folder)), "reward").steps.tolist() == [1, 2]


def test_what_is_no_run_folder_is_refused(tmp_path):
    for folder, message in ((tmp_path / "absent", "expected a folder"), (tmp_path, r"config\.yaml")):
        with pytest.raises(RunFolderError, match=message):
            read_run(folder)


def test_lines_of_earlier_versions_have_the_interval_that_can_be_known():
    def ends(**values):
        line = Evaluation(0, "rl", "s", values.pop("accuracy", 0.4), values.pop("correct", 12), 30, **values)
        found = accuracy_of_evaluation(line)
        return None if found is None else (found.low, found.high)

    assert ends(samples=64, accuracy_low=0.2, accuracy_high=0.6) == (0.2, 0.6)
    # One answer to each problem; several, or nobody knows how many.
    assert ends(samples=1) == pytest.approx((0.245906, 0.576796), abs=1e-5)
    assert ends(samples=3) == pytest.approx((math.nan, math.nan), nan_ok=True)
    assert ends() == pytest.approx((math.nan, math.nan), nan_ok=True)
    assert ends(accuracy=math.nan, correct=None) is None
