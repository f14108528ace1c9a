import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from geoalign.lab.runs.curves import evaluation_curves, reward_series
from geoalign.lab.runs.generations import curated_rewards
from geoalign.lab.runs.numbers import evaluation_rows, numbers_frame, numbers_of
from geoalign.lab.runs.reading import Evaluation, read_run
from geoalign.lab.train.page import figure_sections
from geoalign.pages.score_panels import RankCurve, pooled_scores, rank_curve, rank_panel
from geoalign.pages.style import DARK, LIGHT, Look, Panel, histogram, render

NAN = math.nan


def test_rank_curve_by_hand():
    curve = rank_curve(np.array([3.0, NAN, 1.0, 2.0]), np.array([True, True, False, False]))
    assert curve.score.tolist() == [1, 2, 3]
    assert curve.flipped.tolist() == [False, False, True]
    # (rank - 1/2) / 3
    assert curve.position.tolist() == pytest.approx([1 / 6, 0.5, 5 / 6])


def test_pooled_ranks_lay_steps_of_different_size_over_one_another():
    # Positions of two scores: 0.25 and 0.75; of four: 0.125, 0.375, 0.625, 0.875. At the grid 0.25, 0.75 the first
    # step has 1 and 3, the second, halfway between its scores, (0 + 2)/2 = 1 and (4 + 6)/2 = 5.
    short = RankCurve(np.array([1.0, 3.0]), np.array([False, True]))
    long = RankCurve(np.array([0.0, 2.0, 4.0, 6.0]), np.array([False, False, True, False]))
    grid, scores = pooled_scores([short, long], points=2)
    assert grid.tolist() == [0.25, 0.75]
    assert scores.tolist() == [[1, 3], [1, 5]]
    assert "0 of the 2" in rank_panel([short, long]).alt


def test_a_histogram_is_the_outline_of_percentages():
    # Of four values two lie in the first half; what is outside counts at the end.
    line = histogram("", np.array([-0.5, -0.1, 0.5, 7.0]), np.array([-1.0, 0.0, 1.0]), Look("blue"))
    assert line.x.tolist() == [-1, -1, 0, 0, 1, 1]
    assert line.y.tolist() == [0, 50, 50, 50, 50, 0]


def test_curated_rewards_follow_the_sources(rollout_step):
    # Row 10 holds row 12's content, row 11 nothing, row 12 itself with weight 0.
    step = rollout_step(reward=[1, 2, 3], row=[10, 11, 12], source=[12, -1, 12], weight=[1, 1, 0])
    assert curated_rewards(step)[0] == 3
    assert np.isnan(curated_rewards(step)[1:]).all()


def test_reward_series_computes_what_was_not_logged(make_run):
    run = read_run(make_run(steps=3))
    series = reward_series(numbers_of(run))
    assert list(series) == ["raw", "curated", "true"]
    first = run.rollouts[0]
    index = {row: at for at, row in enumerate(first.row.tolist())}
    expected = np.mean([first.reward[index[source]] for source in first.source.tolist()])
    assert series["curated"].values[0] == pytest.approx(expected)
    assert series["true"].values[0] == pytest.approx(first.true_reward.mean())


def test_evaluation_curves_begin_at_step_zero_and_keep_the_last_of_equal_steps():
    rows = (
        Evaluation(99, "before_rl", "a", 0.1, 1, 10),
        Evaluation(5, "rl", "a", 0.2, 2, 10),
        Evaluation(5, "after_rl", "a", 0.3, 3, 10),
        Evaluation(5, "rl", "b", 0.4, 4, 10),
    )
    numbers = numbers_frame(row for evaluation in rows for row in evaluation_rows(evaluation))
    curves = evaluation_curves(numbers, "accuracy")
    assert curves["a"].value.to_dict() == {0: 0.1, 5: 0.3}
    assert curves["b"].value.to_dict() == {5: 0.4}


def _panels(folder):
    run = read_run(folder)
    sections = figure_sections(run, numbers_of(run))
    return {panel.name: panel for _, _, drawn in sections for panel in drawn if isinstance(panel, Panel)}


def test_every_panel_of_a_run_renders_in_both_styles(make_run):
    panels = _panels(make_run(steps=3))
    assert set(panels) == {
        "projector-accuracy", "rank-pooled", "gdi-density-step-000001",
        "gdi-density-step-000002", "gdi-density-step-000003", "pair-cosines", "kl", "clip-fraction",
    }  # fmt: skip
    for theme in (LIGHT, DARK):
        picture = render(panels["rank-pooled"], theme)
        assert ElementTree.fromstring(picture).tag.endswith("svg")
        assert picture == render(panels["rank-pooled"], theme)
