"""What the figures draw: their data on hand values, read off the axes."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from geoalign.lab.analysis.comparison.analysis import analyse
from geoalign.lab.analysis.comparison.groups import ALPHA, sweep
from geoalign.lab.analysis.comparison.table import Curve
from geoalign.lab.reports.comparison.curves import (
    band,
    evaluation_panels,
    logged_panels,
    pass_at_k_panel,
    path,
    projector_panel,
    proxy_and_gold_panels,
    seeds_panels,
)
from geoalign.lab.reports.comparison.looks import heading, palette, portions, slug
from geoalign.lab.reports.comparison.scores import (
    alpha_panel,
    detection_panel,
    differences_panel,
    pooled_scores,
    rank_panels,
    rate_curve,
    robustness_panels,
    snapshot_curve,
)
from geoalign.lab.reports.figures.style import LIGHT, Panel
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.comparison_results import Snapshot, read_results

NAN = math.nan
SCORES = {"grpo": 0.5, "geoalign": 0.6, "pair_count": 0.5, "oracle": 0.7}


class Compared:
    """A comparison read and analysed."""

    def __init__(self, folder):
        self.plan = ComparisonFolder(folder).read_plan()
        self.cells = read_results(folder)
        self.table = analyse(self.cells, self.plan)
        self.levels = self.table.levels

    def of(self, row):
        return [cell for cell in self.cells if (cell.level, cell.arm) == (row.level, row.arm) and cell.finished]


@pytest.fixture(scope="module")
def compared(tmp_path_factory, write_comparison):
    rates = {"none": 0.0, "flip_10": 0.1, "flip_20": 0.2}
    scores = {"none": {"grpo": 0.8}, "flip_10": SCORES, "flip_20": {**SCORES, "grpo": 0.4, "random": 0.4}}
    return Compared(write_comparison(tmp_path_factory.mktemp("figures"), scores, rates=rates))


def drawn(panel: Panel):
    """The axes after drawing; the panel renders in both styles as well."""
    axes = Figure().add_subplot()
    panel.draw(axes, LIGHT)
    return axes


def lines_of(axes) -> dict[str, tuple[list, list]]:
    """Labelled lines as label -> (x, y)."""
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


# --- evaluation curves ------------------------------------------------------------------------------------------------


def test_a_band_is_mean_and_interval_of_the_smoothed_seeds():
    # Three seeds, two steps: too few points to smooth. Means 2 and 4; at step 5 sd 1: reach 4.302653 / sqrt(3).
    curve = Curve((0, 1, 2), np.array([0, 5]), np.array([[2.0, 3.0], [2.0, 4.0], [2.0, 5.0]]))
    found = band(curve)
    assert found.smooth.tolist() == found.y.tolist() == [2, 4]
    assert found.high.tolist() == pytest.approx([2, 4 + 2.484138])
    # Nine points of one seed: the first step up of height 1 moves the smoothed curve by 0.4, then 0.64.
    single = band(Curve((0,), np.arange(9), np.array([[0.0] + [1.0] * 8])))
    assert single.smooth[:3].tolist() == pytest.approx([0, 0.4, 0.64])
    assert single.y.tolist() == [0] + [1] * 8
    assert np.isnan(single.low).all()


def test_evaluation_curves_draw_every_arm_from_step_0(compared):
    level = compared.levels[1]
    (panel,) = evaluation_panels(level, "accuracy")
    lines = lines_of(drawn(panel))
    assert list(lines) == ["grpo", "geoalign", "pair_count", "oracle"]
    steps, values = lines["oracle"]
    assert steps == list(range(0, 101, 10))
    assert values == pytest.approx(band(level.row("oracle").curve).smooth.tolist())
    assert values[0] == pytest.approx(0.2)
    # Smoothed towards the plateau at 0.7 from below.
    assert 0.66 < values[-1] < 0.7
    assert "oracle 0.200 to 0.6" in panel.alt


def test_arms_are_drawn_in_portions_beside_the_baseline(make_comparison):
    arms = {**SCORES, **{f"other_{at}": 0.5 for at in range(8)}}
    level = Compared(make_comparison({"x": arms}, seeds=(0,))).levels[0]
    names = [[row.arm for row in part] for part in portions(level.rows)]
    assert names == [
        ["grpo", "geoalign", "pair_count", "oracle"],
        ["grpo", "other_0", "other_1", "other_2", "other_3", "other_4"],
        ["grpo", "other_5", "other_6", "other_7"],
    ]
    assert [panel.name for panel in evaluation_panels(level, "accuracy")] == [
        "evaluation-x", "evaluation-x-2", "evaluation-x-3",
    ]  # fmt: skip
    style = palette(level.rows)
    # Within a picture no two arms look alike.
    assert all(len({style[arm] for arm in part}) == len(part) for part in names)


def test_seeds_are_drawn_one_line_each(compared):
    (panel,) = seeds_panels(compared.levels[1], "accuracy")
    axes = drawn(panel)
    assert len(axes.get_lines()) == 10
    assert list(lines_of(axes)) == ["grpo", "geoalign"]
    assert "geoalign: 5 seeds" in panel.alt


# --- final scores -----------------------------------------------------------------------------------------------------


def test_differences_draw_each_paired_interval(compared):
    level = compared.levels[1]
    panel = differences_panel(level, compared.plan)
    axes = drawn(panel)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["geoalign", "pair_count", "oracle"]
    points = [bar.lines[0].get_xdata()[0] for bar in axes.containers]
    assert points == pytest.approx([0.1, 0.0, 0.2], abs=1e-12)
    (segment,) = axes.containers[0].lines[2][0].get_segments()
    interval = level.row("geoalign").score.difference.interval
    assert segment[:, 0].tolist() == pytest.approx([interval.low, interval.high])


def test_robustness_draws_final_scores_by_rate(compared):
    assert [(rate, round(found.estimate, 6)) for rate, found in rate_curve(compared.levels, "grpo")] == [
        (0.0, 0.8), (0.1, 0.5), (0.2, 0.4),
    ]  # fmt: skip
    (panel,) = robustness_panels(compared.levels, compared.plan)
    axes = drawn(panel)
    lines = lines_of(axes)
    # An arm with a single rate (random) makes no curve.
    assert list(lines) == ["grpo", "geoalign", "pair_count", "oracle"]
    x, y = lines["grpo"]
    assert y == pytest.approx([0.8, 0.5, 0.4])
    # Moved sideways by less than a percentage point.
    assert np.abs(np.array(x) - np.array([0, 10, 20])).max() < 1
    assert "grpo 0.800 at 0%, 0.500 at 10%, 0.400 at 20%" in panel.alt


def test_kinds_of_corruption_are_not_mixed(make_comparison):
    levels = {"a": {"reward": {"flip": 0.1}}, "b": {"reward": {"shortcut": 0.2}}}
    compared = Compared(make_comparison({"a": {"grpo": 0.5}, "b": {"grpo": 0.5}}, compare={"levels": levels}))
    (reason,) = robustness_panels(compared.levels, compared.plan)
    assert "differ in the rate of one kind" in reason
    assert heading(compared.levels[1]) == "shortcut 20%"


def test_alpha_draws_scores_by_value_with_the_baseline(make_comparison):
    settings = {
        name: {"type": "geoalign", "alpha": value} for name, value in (("geoalign", 0.05), ("low", 0.01), ("high", 0.2))
    }
    scores = {"grpo": 0.5, "geoalign": 0.6, "low": 0.55, "high": 0.45}
    compared = Compared(make_comparison({"x": scores}, settings=settings))
    level = compared.levels[0]
    panel = alpha_panel(level, sweep(level.rows, ALPHA, level.row("geoalign")), compared.plan)
    axes = drawn(panel)
    x, y = lines_of(axes)["GeoAlign"]
    assert list(x) == [0.01, 0.05, 0.2]
    assert list(y) == pytest.approx([0.55, 0.6, 0.45])
    assert lines_of(axes)["grpo"][1] == pytest.approx([0.5, 0.5])


# --- kept generations -------------------------------------------------------------------------------------------------


def test_snapshots_rank_scored_rollouts_with_their_crosses():
    snapshot = Snapshot(
        7, np.array([3.0, NAN, 1.0]), np.array([1.0, NAN, 1.0]), np.array([3.0, 0.0, 1.0]), np.ones(3),
        np.array([True, True, False]), np.zeros(3, dtype=bool),
    )  # fmt: skip
    curve = snapshot_curve(snapshot)
    assert curve.score.tolist() == [1, 3]
    assert curve.flipped.tolist() == [False, True]


def test_rank_plots_pool_all_seeds_and_show_the_last_generation(compared):
    level = compared.levels[1]
    pooled, single, tenths = rank_panels(level, "geoalign", compared.of(level.row("geoalign")))
    # Of 38 scored rows, two are corrupted: those of score 19 and 39, ranks 18 and 38.
    crosses = drawn(single).collections[0].get_offsets()
    assert crosses.tolist() == [[18, 19], [38, 39]]
    assert "step 98" in single.title
    # Five seeds of three generations of two crosses.
    assert len(drawn(pooled).collections[-1].get_offsets()) == 30
    assert "15 of the 30 corrupted rewards lie in the highest tenth" in pooled.alt
    bars = [bar.get_height() for bar in drawn(tenths).patches]
    # Positions (rank - 1/2)/38: 0.46 and 0.99: tenths 4 and 9 hold 4 and 4 rows (ranks 16 to 19, 35 to 38) of which one
    # each is corrupted.
    assert bars[9] == pytest.approx(25)
    assert bars[4] == pytest.approx(25)
    assert sum(bars) == pytest.approx(50)
    assert "flipped" not in f"{pooled.caption} {single.caption} {tenths.alt}"


def test_scores_of_several_generations_are_pooled_in_medians():
    first = Snapshot(
        0, np.array([1.0, 2.0, 6.0]), np.full(3, NAN), np.ones(3), np.ones(3), np.array([False, False, True]),
        np.zeros(3, dtype=bool),
    )  # fmt: skip
    second = Snapshot(
        1, np.array([10.0, NAN, 30.0]), np.full(3, NAN), np.ones(3), np.ones(3), None, np.zeros(3, dtype=bool)
    )
    values, marks = pooled_scores([first, second], "score")
    # Medians 2 and 20.
    assert values.tolist() == [0.5, 1, 3, 0.5, 1.5]
    assert marks.tolist() == [False, False, True, False, False]
    assert len(pooled_scores([first], "mean_score")[0]) == 0


# --- training dynamics ------------------------------------------------------------------------------------------------


def test_logged_quantities_are_drawn_or_their_absence_is_said(compared):
    level = compared.levels[1]
    kl, clip = logged_panels(level, compared.of, ("ppo_kl", "clip_fraction"), compared.plan)
    assert list(lines_of(drawn(kl))) == ["grpo", "geoalign", "pair_count", "oracle"]
    assert "geoalign 0.001" in kl.alt
    assert "geoalign 0.01" in clip.alt
    assert logged_panels(level, lambda row: [], ("ppo_kl",), compared.plan) == ["PPO KL was not logged at flip_10."]


def test_projector_accuracies_of_the_geoalign_arm(compared):
    row = compared.levels[1].row("geoalign")
    lines = lines_of(drawn(projector_panel(compared.levels[1], row, compared.of(row))))
    assert list(lines) == ["training pairs", "held-out pairs", "new groups", "chance"]
    steps, values = lines["new groups"]
    # Measured at every second update.
    assert steps == list(range(1, 101, 2))
    assert values == pytest.approx([0.6] * 50)
    grpo = compared.levels[1].row("grpo")
    assert projector_panel(compared.levels[1], grpo, compared.of(grpo)) == "grpo logged no projector accuracy."


def test_pass_at_k_and_detection(compared):
    level = compared.levels[1]
    lines = lines_of(drawn(pass_at_k_panel(level)))
    assert lines["grpo"] == ([1, 2, 4], pytest.approx([0.5, 0.6, 0.65]))
    axes = drawn(detection_panel(level, level.row("geoalign")))
    points = [bar.lines[0].get_xdata()[0] for bar in axes.containers]
    assert points == pytest.approx([0.75, 0.65, 0.7, 0.6, 0.3])
    assert "Nothing to detect" in detection_panel(compared.levels[0], compared.levels[0].row("grpo"))


def test_proxy_and_gold_are_drawn_apart_and_against_each_other(make_comparison):
    folder = make_comparison({"x": {"grpo": 0.9, "oracle": 0.7}}, metric="reward", gold=-0.2)
    level = Compared(folder).levels[0]
    proxy, gold = path(level.row("grpo"))
    # The smoothed proxy rises while the gold utility falls.
    assert (np.diff(proxy) > 0).all()
    assert (np.diff(gold) < 0).all()
    panels = {panel.name: panel for panel in proxy_and_gold_panels(level, "gold_utility")}
    assert list(panels) == ["proxy-reward-x", "proxy-gold-x"]
    assert [panel.name for panel in proxy_and_gold_panels(level, "reward")] == ["gold-utility-x", "proxy-gold-x"]
    lines = lines_of(drawn(panels["proxy-gold-x"]))
    assert lines["grpo"][0] == pytest.approx(proxy.tolist())
    assert lines["grpo"][1] == pytest.approx(gold.tolist())


def test_slugs_stay_inside_the_folder():
    assert slug("flip_0.10") == "flip_0.10"
    assert "/" not in slug("../../etc")
    # What had to be changed ends in a hash, so that two names stay two.
    assert slug('"><img src=x>') == "-img-src-x--4533a372"
    assert slug("-img-src-x-") == "-img-src-x-"
