import math
from dataclasses import replace

import numpy as np
import pytest

from geoalign.lab.compare.cell_numbers import by_generation, evaluation_series, final_score, pass_at_k
from geoalign.lab.compare.results import Cell
from geoalign.lab.runs.reading import Evaluation

NAN = math.nan
EMPTY = Cell(
    arm="a", level="b", seed=0, finished=True, error="", curator="grpo", settings={}, evaluations=(), series={},
    detection={}, replaced_precision=NAN, base_rate=NAN, snapshots=(), seconds=NAN,
    seconds_per_step=NAN, peak_memory_bytes=NAN,
)  # fmt: skip


def line(step, value, *, stage="rl", name="one", **more):
    return Evaluation(step, stage, name, value, 0, 10, **more)


def cell(*lines):
    return replace(EMPTY, evaluations=lines)


def test_the_curve_is_the_mean_over_sets_with_before_rl_at_step_0():
    found = evaluation_series(
        cell(
            line(77, 0.1, stage="before_rl"), line(77, 0.3, stage="before_rl", name="two"),
            line(10, 0.2), line(10, 0.6, name="two"),
        ),
        "accuracy",
    )  # fmt: skip
    assert found.steps.tolist() == [0, 10]
    assert found.values.tolist() == pytest.approx([0.2, 0.4])


def test_a_step_at_which_a_set_is_missing_is_left_out():
    found = evaluation_series(cell(line(10, 0.2), line(10, 0.6, name="two"), line(20, 0.9)), "accuracy")
    assert found.steps.tolist() == [10]
    # A set without the metric is no set.
    lines = cell(line(10, NAN, reward=1.0), line(10, 0.6, name="two", reward=3.0))
    assert evaluation_series(lines, "accuracy").values.tolist() == [0.6]
    assert evaluation_series(lines, "reward").values.tolist() == [2.0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_at_one_step_the_evaluation_after_rl_counts(order):
    lines = [line(20, 0.5), line(20, 0.7, stage="after_rl")]
    found = evaluation_series(cell(*(lines[at] for at in order)), "accuracy")
    assert (found.steps.tolist(), found.values.tolist()) == ([20], [0.7])


def test_the_final_score_by_hand():
    # The evaluation before RL never counts; the last five of six are 2 to 6.
    lines = [line(0, 9.0, stage="before_rl"), *(line(step, float(step)) for step in range(1, 7))]
    assert final_score(cell(*lines), "accuracy", 5) == (4.0, 5)
    assert final_score(cell(*lines[:3]), "accuracy", 5) == (1.5, 2)
    nothing, count = final_score(cell(lines[0]), "accuracy", 5)
    assert math.isnan(nothing)
    assert count == 0


def test_pass_at_k_of_the_last_evaluation_over_its_sets():
    lines = (
        line(0, 0.1, stage="before_rl", pass_at_k={1: 0.9}),
        line(10, 0.2, pass_at_k={1: 0.2, 2: 0.3}),
        line(20, 0.5, pass_at_k={1: 0.4}),
        line(20, 0.5, stage="after_rl", pass_at_k={1: 0.5, 2: 0.7, 4: 0.8}),
        line(20, 0.5, stage="after_rl", name="two", pass_at_k={1: 0.7, 2: 0.9}),
        line(10, 0.5, name="stopped", pass_at_k={1: 0.0, 2: 0.0}),
    )
    # k = 4 was not measured on both.
    assert pass_at_k(cell(*lines)) == pytest.approx({1: 0.6, 2: 0.8})
    assert pass_at_k(cell(line(10, 0.2))) == {}


def test_the_first_update_on_a_generation_does_not_make_the_median():
    # Three generations of two updates: (0 + 4) / 2, (0 + 2) / 2, and 6 beside an unknown one.
    values = np.array([0.0, 4.0, 0.0, 2.0, NAN, 6.0])
    assert by_generation(values, 2).tolist() == [2, 1, 6]
    assert by_generation(values[:5], 2)[:2].tolist() == [2, 1]
    assert math.isnan(by_generation(values[:5], 2)[2])
    for unknown in (NAN, 1, 1.5):
        np.testing.assert_array_equal(by_generation(values, unknown), values)
    assert len(by_generation(np.array([]), 2)) == 0
