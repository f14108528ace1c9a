"""The numbers of a comparison's runs from its long frame, by hand."""

import math

import numpy as np
import pytest
from pandas import DataFrame, MultiIndex, Series

from geoalign.lab.compare.analysis import read_table
from geoalign.lab.compare.numbers import (
    RUN,
    arm_evaluation_curves,
    arm_pass_at_k,
    by_generation,
    final_scores,
    logged_curves,
    long_frame,
)
from geoalign.lab.compare.results import RunResult
from geoalign.lab.runs.numbers import evaluation_rows
from geoalign.lab.runs.reading import Evaluation

NAN = math.nan


def line(step, value, *, stage="rl", name="one", **more):
    return Evaluation(step, stage, name, value, 0, 10, **more)


def frame(*lines, seed=0):
    """The long frame of one run with these evaluations."""
    rows = [row for one in lines for row in evaluation_rows(one)]
    result = RunResult(
        level="b", arm="a", seed=seed, finished=True, error="", same_run_as="", curator="grpo", settings={},
        rows=tuple(rows), snapshots=(),
    )  # fmt: skip
    return long_frame([result])


def curve(numbers, metric="accuracy"):
    """The curve of the only run, by step."""
    return arm_evaluation_curves(numbers, metric).droplevel(RUN).to_dict()


def test_the_curve_is_the_mean_over_sets_with_before_rl_at_step_0():
    numbers = frame(
        line(77, 0.1, stage="before_rl"), line(77, 0.3, stage="before_rl", name="two"),
        line(10, 0.2), line(10, 0.6, name="two"),
    )  # fmt: skip
    assert curve(numbers) == pytest.approx({0: 0.2, 10: 0.4})


def test_a_step_at_which_a_set_is_missing_is_left_out():
    numbers = frame(line(10, 0.2), line(10, 0.6, name="two"), line(20, 0.9))
    assert list(curve(numbers)) == [10]
    # A set without the metric is no set.
    numbers = frame(line(10, NAN, reward=1.0), line(10, 0.6, name="two", reward=3.0))
    assert curve(numbers) == {10: 0.6}
    assert curve(numbers, "reward") == {10: 2.0}


def test_at_one_step_the_evaluation_after_rl_counts():
    assert curve(frame(line(20, 0.5), line(20, 0.7, stage="after_rl"))) == {20: 0.7}


def test_the_final_score_by_hand():
    # The evaluation before RL never counts; the last five of six are 2 to 6.
    before = line(0, 9.0, stage="before_rl")
    lines = [before, *(line(step, float(step)) for step in range(1, 7))]
    for count, score in ((7, 4.0), (3, 1.5)):
        curves = arm_evaluation_curves(frame(*lines[:count]), "accuracy", before=False)
        assert final_scores(curves, 5).tolist() == [score]
    assert arm_evaluation_curves(frame(before), "accuracy", before=False).empty


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
    of_run = arm_pass_at_k(frame(*lines)).loc["b", "a", 0]
    assert of_run.to_dict() == pytest.approx({"pass@1": 0.6, "pass@2": 0.8})
    assert arm_pass_at_k(frame(line(10, 0.2))).empty


def test_the_first_update_on_a_generation_does_not_make_the_median():
    # Three generations of two updates: (0 + 4) / 2, (0 + 2) / 2, and 6 beside an unknown one.
    values = {1: 0.0, 2: 4.0, 3: 0.0, 4: 2.0, 6: 6.0}
    index = MultiIndex.from_tuples([("b", "a", 0, step) for step in values], names=[*RUN, "step"])
    curves = Series(list(values.values()), index=index)

    def means(updates):
        of_runs = Series([updates], index=MultiIndex.from_tuples([("b", "a", 0)], names=RUN), dtype=float)
        return by_generation(curves, of_runs).tolist()

    assert means(2) == [2, 1, 6]
    for unknown in (NAN, 1, 1.5):
        assert means(unknown) == list(values.values())


def test_runs_are_kept_apart_and_logged_numbers_are_no_evaluations():
    first = frame(line(10, 0.25, reward=0.5), seed=0)
    logged = DataFrame([("b", "a", 0, "", "rl", 10, "reward", 0.75)], columns=first.columns)
    numbers = np.concatenate([first, frame(line(10, 0.75, reward=1.0), seed=1), logged])
    numbers = DataFrame(numbers, columns=first.columns).astype({"value": float, "seed": int, "step": int})
    evaluated = arm_evaluation_curves(numbers, "reward")
    assert evaluated.to_dict() == {("b", "a", 0, 10): 0.5, ("b", "a", 1, 10): 1.0}
    assert logged_curves(numbers, "reward").to_dict() == {("b", "a", 0, 10): 0.75}


def test_a_comparison_is_one_frame_with_a_row_for_each_number(make_comparison):
    scores = {"x": {"grpo": 0.5, "oracle": 0.6}}
    folder = make_comparison(scores, seeds=(0, 1), failed=[("x", "oracle", 1)])
    numbers = read_table(folder).numbers
    assert list(numbers) == ["level", "arm", "seed", "set", "stage", "step", "metric", "value"]
    runs = set(zip(numbers.arm, numbers.seed, strict=True))
    assert runs == {("grpo", 0), ("grpo", 1), ("oracle", 0)}
    assert not numbers.value.isna().any()

    def values_where(**where):
        chosen = numbers
        for column, value in where.items():
            chosen = chosen[chosen[column] == value]
        return chosen.value.tolist()

    run = {"level": "x", "arm": "grpo", "seed": 0}
    assert values_where(**run, set="test", stage="before_rl", metric="accuracy") == [0.2]
    assert values_where(**run, set="", stage="rl", step=2, metric="ppo_kl") == [0.002]
    # Every second update generates nothing, so no true reward is known.
    assert values_where(**run, set="", stage="rl", step=2, metric="true_reward") == []
    assert values_where(**run, stage="run", metric="peak_memory_bytes") == [1e9]
