"""What the figures draw: their data on hand values, read off the axes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from geoalign.lab.compare.analysis import read_table
from geoalign.lab.compare.panels import (
    arm_policy_panels,
    arm_projector_panel,
    differences_panel,
    evaluation_panel,
    further_panels,
    further_rows,
    kept_rank_panel,
    leading_panels,
    leading_rows,
    logged_panel,
    palette,
    pass_at_k_panel,
    rate_curve,
    robustness_panels,
)
from geoalign.pages.style import LIGHT, Look, band

SCORES = {"grpo": 0.5, "geoalign": 0.6, "pair_count": 0.5, "oracle": 0.7}


@pytest.fixture(scope="module")
def table(tmp_path_factory, write_comparison):
    rates = {"none": 0.0, "flip_10": 0.1, "flip_20": 0.2}
    scores = {"none": {"grpo": 0.8}, "flip_10": SCORES, "flip_20": {**SCORES, "grpo": 0.4, "random": 0.4}}
    return read_table(write_comparison(tmp_path_factory.mktemp("figures"), scores, rates=rates))


@pytest.fixture(scope="module")
def level(table):
    return table.levels[1]


def drawn(panel):
    axes = Figure().add_subplot()
    panel.draw(axes, LIGHT)
    return axes


def lines_of(axes):
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def test_a_band_is_mean_and_interval_of_the_smoothed_seeds():
    # Three seeds, two steps: too few points to smooth. Means 2 and 4; at step 5 sd 1: reach 4.302653 / sqrt(3).
    seeds = np.array([[2.0, 3.0], [2.0, 4.0], [2.0, 5.0]])
    found = band("", Look("blue"), np.array([0, 5]), seeds)
    assert found.smooth == found.y == [2, 4]
    assert found.high == pytest.approx([2, 4 + 2.484138])
    # Nine points of one seed: the first step up of height 1 moves the smoothed curve by 0.4, then 0.64.
    one_step_up = np.array([[0.0] + [1.0] * 8])
    single = band("", Look("blue"), np.arange(9), one_step_up)
    assert single.smooth[:3] == pytest.approx([0, 0.4, 0.64])
    assert single.y == [0] + [1] * 8
    assert np.isnan(single.low).all()


def test_evaluation_curves_draw_every_arm_from_step_0(table, level):
    panel = evaluation_panel(level, table.plan, "accuracy", leading_rows(level.rows))
    lines = lines_of(drawn(panel))
    assert list(lines) == ["grpo", "geoalign", "pair_count", "oracle"]
    steps, values = lines["oracle"]
    assert steps == list(range(0, 101, 10))
    assert values[0] == pytest.approx(0.2)
    # Smoothed towards the plateau at 0.7 from below.
    assert 0.66 < values[-1] < 0.7
    assert "oracle 0.200 to 0.6" in panel.alt


def test_no_picture_has_more_than_six_arms_and_the_planned_ones_come_first(make_comparison):
    arms = {**SCORES, **{f"other_{at}": 0.5 for at in range(8)}}
    table = read_table(make_comparison({"x": arms}, seeds=(0,)))
    level = table.levels[0]
    names = [[row.arm for row in part] for part in (leading_rows(level.rows), *further_rows(level.rows))]
    assert names == [
        ["grpo", "geoalign", "pair_count", "oracle", "other_0", "other_1"],
        ["grpo", "other_2", "other_3", "other_4", "other_5", "other_6"],
        ["grpo", "other_7"],
    ]
    sections = {name: panels for name, _, panels in further_panels(level, table)}
    assert [panel.name for panel in sections["others"]] == ["evaluation-x-2", "evaluation-x-3"]
    style = palette(table.plan)
    # Within a picture no two arms look alike.
    assert all(len({style[arm] for arm in part}) == len(part) for part in names)


def test_an_arm_looks_the_same_at_every_level(table):
    def colours(level):
        lines = evaluation_panel(level, table.plan, "accuracy", leading_rows(level.rows)).lines
        return {line.name: line.look for line in lines}

    _, first, second = map(colours, table.levels)
    assert {arm: second[arm] for arm in first} == first


def test_differences_draw_each_paired_interval(table, level):
    axes = drawn(differences_panel(level, table.plan))
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "geoalign +0.100", "pair_count 0.000", "oracle +0.200",
    ]  # fmt: skip
    points = [bar.lines[0].get_xdata()[0] for bar in axes.containers]
    assert points == pytest.approx([0.1, 0.0, 0.2], abs=1e-12)
    (segment,) = axes.containers[0].lines[2][0].get_segments()
    interval = level.row("geoalign").score.difference.interval
    assert segment[:, 0].tolist() == pytest.approx([interval.low, interval.high])


def test_robustness_draws_final_scores_by_rate(table):
    levels = table.levels
    assert [(rate, round(found.estimate, 6)) for rate, found in rate_curve(levels, "grpo")] == [
        (0.0, 0.8), (0.1, 0.5), (0.2, 0.4),
    ]  # fmt: skip
    (panel,) = robustness_panels(levels, table.plan)
    lines = lines_of(drawn(panel))
    # An arm with a single rate (random) makes no curve.
    assert list(lines) == ["grpo", "geoalign", "pair_count", "oracle"]
    x, y = lines["grpo"]
    assert y == pytest.approx([0.8, 0.5, 0.4])
    # Moved sideways by less than a percentage point.
    assert np.abs(np.array(x) - np.array([0, 10, 20])).max() < 1
    assert "grpo 0.800 at 0%, 0.500 at 10%, 0.400 at 20%" in panel.alt


def test_kinds_of_corruption_are_not_mixed(make_comparison):
    levels = {"a": {"reward": {"flip": 0.1}}, "b": {"reward": {"shortcut": 0.2}}}
    table = read_table(make_comparison({"a": {"grpo": 0.5}, "b": {"grpo": 0.5}}, compare={"levels": levels}))
    (reason,) = robustness_panels(table.levels, table.plan)
    assert isinstance(reason, str)


def test_rank_plots_pool_all_kept_generations_of_all_seeds(table, level):
    pooled = kept_rank_panel(level, level.row("geoalign"), table.results)
    # Five seeds of three generations of two crosses, of 38 scored rows those of ranks 18 and 38.
    x, y = lines_of(drawn(pooled))["wrong reward"]
    assert len(x) == 30
    assert set(y) == {19, 39}
    assert "15 of the 30" in pooled.alt


def test_logged_quantities_are_drawn_or_their_absence_is_said(table, level):
    kl, clip = arm_policy_panels(level, table.plan, leading_rows(level.rows))
    assert list(lines_of(drawn(kl))) == ["grpo", "geoalign", "pair_count", "oracle"]
    assert "geoalign 0.001" in kl.alt
    assert "geoalign 0.01" in clip.alt
    bare = replace(level, numbers=level.numbers[level.numbers.metric != "ppo_kl"])
    assert logged_panel(bare, table.plan, "ppo_kl", bare.rows) == "PPO KL was not logged at flip_10."


def test_how_far_the_policy_moved_is_zero_where_the_arms_own_level_makes_one_update_a_generation(make_comparison):
    rates = {"as_given": 0.1, "one_update": 0.1}
    single = {"reward": {"flip": 0.1}, "grpo": {"steps_per_generation": 1}}
    levels = {"as_given": {"reward": {"flip": 0.1}}, "one_update": single}
    table = read_table(make_comparison(dict.fromkeys(rates, SCORES), rates=rates, compare={"levels": levels}))
    two, one = table.levels
    assert [row.updates for row in two.rows] == [(2.0,)] * 4
    assert [row.updates for row in one.rows] == [(1.0,)] * 4
    assert arm_policy_panels(two, table.plan, two.rows)[0].name == "kl-as_given"
    reason, _ = arm_policy_panels(one, table.plan, one.rows)
    assert "zero by construction" in reason


def test_projector_accuracies_of_the_geoalign_arm(level):
    lines = lines_of(drawn(arm_projector_panel(level, level.row("geoalign"))))
    assert list(lines) == ["training pairs", "held-out pairs", "new groups", "chance"]
    # Measured at every second update.
    assert lines["new groups"] == (list(range(1, 101, 2)), pytest.approx([0.6] * 50))
    assert arm_projector_panel(level, level.row("grpo")) == "grpo logged no projector accuracy."


def test_pass_at_k(table, level):
    lines = lines_of(drawn(pass_at_k_panel(level, table.plan)))
    assert lines["grpo"] == ([1, 2, 4], pytest.approx([0.5, 0.6, 0.65]))


def test_a_level_opens_with_the_truth(make_comparison, table, level):
    folder = make_comparison({"x": {"grpo": 0.9, "oracle": 0.7}}, metric="reward", gold=-0.2)
    dialogue = read_table(folder)
    panels = leading_panels(dialogue.levels[0], dialogue.plan)
    assert [panel.name for panel in panels] == ["gold-reward-x", "proxy-reward-x", "differences-x"]
    assert np.diff(lines_of(drawn(panels[0]))["grpo"][1]).max() < 0
    assert [panel.name for panel in leading_panels(level, table.plan)] == [
        "evaluation-flip_10", "true-reward-flip_10", "differences-flip_10",
    ]  # fmt: skip


def test_the_band_of_a_share_stays_above_zero(make_comparison):
    folder = make_comparison({"x": {"grpo": 0.4, "geoalign": 0.5}}, seeds=(0, 1, 2))
    for seed in (1, 2):
        path = folder / "results" / "x" / "geoalign" / f"seed-{seed}.json"
        result = json.loads(path.read_text())
        result["series"]["clip_fraction"] = [0.0] * 100
        path.write_text(json.dumps(result))
    table = read_table(folder)
    clip = logged_panel(table.levels[0], table.plan, "clip_fraction", table.levels[0].rows)
    assert min(line.low.min() for line in clip.lines) == 0
