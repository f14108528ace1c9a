"""What the figures draw: their data on hand values, and that every panel renders in both styles."""

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from geoalign.lab.analysis.run_detection import detect
from geoalign.lab.reports.figures.curves import (
    action_shares,
    curated_rewards,
    evaluation_curves,
    reward_panel,
    reward_series,
)
from geoalign.lab.reports.figures.scores import RankCurve, flips_by_tenth, pooled_ranks, rank_curve
from geoalign.lab.reports.figures.style import DARK, LIGHT, Panel, render
from geoalign.lab.reports.page import figure_sections
from geoalign.lab.store.logs import Evaluation
from geoalign.lab.store.rollouts import read_details
from geoalign.lab.store.run import read_run

NAN = math.nan


def test_rank_curve_by_hand(rollout_step):
    step = rollout_step(reward=[1, 0, 0, 1], score=[3.0, NAN, 1.0, 2.0], flipped=[True, True, False, False])
    curve = rank_curve(step)
    assert curve.score.tolist() == [1, 2, 3]
    assert curve.rank.tolist() == [1, 2, 3]
    assert curve.flipped.tolist() == [False, False, True]
    # (rank - 1/2) / 3
    assert curve.position.tolist() == pytest.approx([1 / 6, 0.5, 5 / 6])


def test_pooled_ranks_lay_steps_of_different_size_over_one_another():
    # Positions of two scores: 0.25 and 0.75; of four: 0.125, 0.375, 0.625, 0.875. At the grid 0.25, 0.75 the first
    # step has 1 and 3, the second, halfway between its scores, (0 + 2)/2 = 1 and (4 + 6)/2 = 5: means 1 and 4.
    short = RankCurve(1, np.array([1.0, 3.0]), np.array([False, True]))
    long = RankCurve(2, np.array([0.0, 2.0, 4.0, 6.0]), np.array([False, False, True, False]))
    pooled = pooled_ranks([short, long], points=2)
    assert pooled.grid.tolist() == [0.25, 0.75]
    assert pooled.mean.tolist() == [1, 4]
    # Quantiles 0.1 and 0.9 of 3 and 5: 3.2 and 4.8.
    assert (pooled.low[1], pooled.high[1]) == pytest.approx((3.2, 4.8))
    assert pooled.cross_position.tolist() == [0.75, 0.625]
    assert pooled.cross_score.tolist() == [3, 4]


def test_flips_by_tenth_by_hand():
    # Twenty rollouts: two in each tenth. Flipped are ranks 1, 19 and 20: half of the lowest, all of the highest tenth.
    flipped = np.zeros(20, dtype=bool)
    flipped[[0, 18, 19]] = True
    shares = flips_by_tenth([RankCurve(1, np.arange(20.0), flipped)])
    assert shares.tolist() == [0.5, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert np.isnan(flips_by_tenth([RankCurve(1, np.array([1.0]), np.array([False]))])).sum() == 9


def test_curated_rewards_follow_the_sources(rollout_step):
    # Row 10 holds row 12's content, row 11 nothing, row 12 itself with weight 0.
    step = rollout_step(reward=[1, 2, 3], row=[10, 11, 12], source=[12, -1, 12], weight=[1, 1, 0])
    assert curated_rewards(step)[0] == 3
    assert np.isnan(curated_rewards(step)[1:]).all()


def test_reward_series_computes_what_was_not_logged(make_run):
    run = read_run(make_run(steps=3))
    series = reward_series(run)
    assert list(series) == ["raw", "curated", "true"]
    first = run.rollouts[0]
    index = {row: at for at, row in enumerate(first.row.tolist())}
    expected = np.mean([first.reward[index[source]] for source in first.source.tolist()])
    assert series["curated"].values[0] == pytest.approx(expected)
    assert series["true"].values[0] == pytest.approx(first.true_reward.mean())


def test_the_reward_figure_speaks_of_corrupted_rewards_only_where_they_are_known(make_run):
    assert "corrupted" in reward_panel(read_run(make_run(steps=2))).caption
    assert "corrupted" not in reward_panel(read_run(make_run(steps=2, flip=0.0, name="clean"))).caption


def test_evaluation_curves_begin_at_step_zero_and_keep_the_last_of_equal_steps():
    rows = (
        Evaluation(99, "before_rl", "a", 0.1, 1, 10),
        Evaluation(5, "rl", "a", 0.2, 2, 10),
        Evaluation(5, "after_rl", "a", 0.3, 3, 10),
        Evaluation(5, "rl", "b", 0.4, 4, 10),
    )
    curves = evaluation_curves(rows)
    assert [item.accuracy for item in curves["a"]] == [0.1, 0.3]
    assert [item.accuracy for item in curves["b"]] == [0.4]


def test_action_shares_by_hand(make_run, write_rows):
    folder = make_run(steps=2)
    flagged = {"score": 1.0, "anomalous": True}
    write_rows(folder, 1, [{**flagged, "source": 2}, flagged, {"score": 1.0}, {"score": 1.0}, {}])
    write_rows(folder, 2, [{}, {}])
    steps, flagged_share, replaced_share = action_shares(read_run(folder))
    # Step 1: four scored, two flagged, one replaced; step 2 has no scores.
    assert (steps.tolist(), flagged_share.tolist(), replaced_share.tolist()) == ([1], [0.5], [0.25])


def _panels(folder) -> dict[str, Panel]:
    run = read_run(folder)
    details = {step: read_details(path) for step, path in run.details.items()}
    sections = figure_sections(run, details, detect(run, details))
    return {panel.name: panel for section in sections.values() for panel in section.panels}


def test_every_panel_of_a_run_renders_in_both_styles(make_run):
    panels = _panels(make_run(steps=3))
    expected = {
        "reward", "accuracy", "projector-accuracy", "gdi-rank-pooled", "gdi-rank-tenths", "auroc",
        "gdi-rank-step-000001", "gdi-rank-step-000002", "gdi-rank-step-000003", "actions", "gdi-density-step-000001",
        "gdi-density-step-000002", "gdi-density-step-000003", "cosines-before", "cosines-after", "directions-before",
        "directions-after", "kl", "clip-fraction",
    }  # fmt: skip
    assert set(panels) == expected
    for name in ("gdi-rank-pooled", "directions-after"):
        for theme in (LIGHT, DARK):
            picture = render(panels[name], theme)
            assert ElementTree.fromstring(picture).tag.endswith("svg")
            assert picture == render(panels[name], theme)
    assert all(len(panel.alt) > 40 and panel.caption for panel in panels.values())


def test_missing_quantities_are_explained_not_drawn(make_run):
    run = read_run(make_run(steps=2, flip=0.0, curator="grpo"))
    sections = figure_sections(run, {}, detect(run, {}))
    for name in ("projector", "ranks", "density", "cosines"):
        assert sections[name].panels == ()
        assert "grpo" in " ".join(sections[name].reasons)
