import json
import math

import pytest

from geoalign.lab.compare.analysis import read_table, table_as_json
from geoalign.lab.compare.numbers import arm_evaluation_curves, curves_of_arm
from geoalign.statistics import holm, paired_difference

ARMS = {"grpo": 0.5, "geoalign": 0.6, "pair_count": 0.5, "random": 0.5, "par": 0.4, "oracle": 0.7, "clean": 0.75}


@pytest.fixture(scope="module")
def level(tmp_path_factory, write_comparison):
    """A level where geoalign wins, random is the baseline's like, par loses."""
    return read_table(write_comparison(tmp_path_factory.mktemp("level"), {"flip_10": ARMS})).levels[0]


def test_final_scores_are_means_over_the_last_five_evaluations(level):
    row = level.row("grpo")
    # Seeds 0 to 4: 0.5 + shift + wobble (index 0: in their order).
    assert list(row.score.values.values()) == pytest.approx([0.58, 0.41, 0.55, 0.44, 0.52])
    assert row.score.interval.estimate == pytest.approx(0.5)
    # Deviations .08, -.09, .05, -.06, .02: squares add up to .021, sd sqrt(.00525) = .072457, error .032404; t with 4
    # degrees of freedom 2.776445: reach .089967.
    assert row.score.interval.high == pytest.approx(0.589967, abs=1e-5)
    assert row.evaluations == 5
    assert [item.score.interval.estimate for item in level.rows] == pytest.approx(list(ARMS.values()))


def test_differences_are_paired_by_seed(level):
    row = level.row("geoalign")
    expected = paired_difference(row.score.values, level.row("grpo").score.values)
    assert row.score.difference == expected
    # Unpaired the intervals overlap widely, since seeds differ by 0.1; paired they do not reach zero.
    assert row.score.interval.low < level.row("grpo").score.interval.high
    assert expected.interval.low > 0.05


def test_what_was_fixed_beforehand_is_primary_and_the_rest_is_corrected(level):
    found = {(item.arm, item.against): item for item in level.comparisons}
    assert {key for key, item in found.items() if item.kind == "primary"} == {
        ("geoalign", "grpo"), ("geoalign", "pair_count"),
    }  # fmt: skip
    explored = [("pair_count", "grpo"), ("random", "grpo"), ("par", "grpo")]
    assert {key for key, item in found.items() if item.kind == "exploratory"} == set(explored)
    adjusted = holm([found[key].difference.p for key in explored])
    assert [found[key].adjusted_p for key in explored] == pytest.approx(adjusted.tolist())
    assert all(math.isnan(item.adjusted_p) for item in level.comparisons if item.kind != "exploratory")
    assert found["oracle", "grpo"].kind == "headroom"
    assert found["clean", "grpo"].kind == "bound"


def test_an_oracle_named_beforehand_is_the_headroom_and_shared_warm_starts_are_told(make_comparison):
    plan = {"primary": [{"arm": "oracle", "against": "grpo"}], "seeds_per_warm_start": 5}
    table = read_table(make_comparison({"x": ARMS}, compare=plan))
    assert table.levels[0].statements[0].verdict == "better"
    assert table.notes == ("Intervals and p-values take seeds as independent, although 5 share each warm start.",)


def test_failed_and_missing_cells_are_told_and_left_out_of_the_pairs(make_comparison):
    missing = [("x", "geoalign", 4), ("x", "grpo", 0)]
    table = read_table(make_comparison({"x": ARMS}, failed=[("x", "geoalign", 1)], missing=missing))
    row = table.levels[0].row("geoalign")
    assert (row.seeds, row.missing) == ((0, 2, 3), (4,))
    assert [failure.seed for failure in row.failures] == [1]
    assert table.failures == row.failures
    # Common seeds: 2 and 3; 0 and 1 and 4 stand on one side.
    assert (row.score.difference.pairs, row.score.difference.left_out) == (2, 3)
    assert not row.score.difference.defined


def test_results_outside_the_plan_are_left_out_and_counted(make_comparison):
    scores = {"x": {"grpo": 0.5, "random": 0.5}, "y": {"grpo": 0.5}}
    plan = {"arms": {"grpo": {}}, "levels": {"x": {}}, "seeds": [0, 1, 2]}
    table = read_table(make_comparison(scores, compare=plan, failed=[("x", "random", 0)]))
    assert [(level.level, [row.arm for row in level.rows]) for level in table.levels] == [("x", ["grpo"])]
    assert table.levels[0].rows[0].seeds == (0, 1, 2)
    # Five of random, five at y, two seeds of grpo at x.
    assert "Results of 12 runs that are not in compare.yaml are left out." in table.notes
    assert table.failures == ()


def test_trust_region_and_cost(level):
    row, plain = level.row("geoalign"), level.row("grpo")
    # Every second update has a KL of 0.002 and clips 2%, the others nothing.
    assert row.measures["kl_mean"].interval.estimate == pytest.approx(0.001)
    assert row.measures["kl_median"].interval.estimate == pytest.approx(0.001)
    assert row.measures["clip_mean"].interval.estimate == pytest.approx(0.01)
    assert row.measures["curation_seconds"].interval.estimate == pytest.approx(0.1)
    # 0.1 of 2 seconds.
    assert row.measures["curation_share"].interval.estimate == pytest.approx(0.05)
    # 20 MB and 1 MB times the seed more than the baseline: 20 + (0+1+2+3+4)/5 = 22.
    assert row.measures["memory"].difference.interval.estimate == pytest.approx(22e6)
    assert plain.measures["curation_seconds"].interval.estimate == 0
    assert row.measures["replaced"].interval.estimate == 8
    assert row.measures["new_group_accuracy"].interval.estimate == pytest.approx(0.6)
    assert math.isnan(plain.measures["new_group_accuracy"].interval.estimate)


def test_detection_with_intervals_over_seeds_and_the_gain_over_the_pair_count(level):
    found = level.row("geoalign").detection
    rows = {row.score: row for row in found.rows}
    assert list(rows) == ["score", "pair_count", "fewest_pairs", "distance"]
    assert rows["score"].auroc.estimate == pytest.approx(0.75)
    assert rows["score"].count == 5
    assert rows["score"].auprc.estimate == pytest.approx(0.25)
    assert found.control == "pair_count"
    assert found.gain.interval.estimate == pytest.approx(0.05)
    assert found.gain.excludes_zero
    assert found.precision.estimate == pytest.approx(0.3)
    assert found.base_rate.estimate == pytest.approx(0.1)
    plain = level.row("grpo").detection
    assert [row.score for row in plain.rows] == ["pair_count", "fewest_pairs", "distance"]
    assert math.isnan(plain.gain.interval.estimate)


def test_the_gold_utility_beside_the_proxy_reward(make_comparison):
    level = read_table(make_comparison({"x": {"grpo": 0.9}}, metric="reward", gold=-0.3)).levels[0]
    row = level.row("grpo")
    assert row.score.interval.estimate == row.measures["reward"].interval.estimate == pytest.approx(0.9)
    # Gold falls from 0.5 at step 0 by 0.003 a step: at steps 60 to 100 its mean is 0.5 - 0.24.
    assert row.gold.interval.estimate == pytest.approx(0.26)
    assert row.measures["gold_drop"].interval.estimate == pytest.approx(0.3)
    _, values = curves_of_arm(arm_evaluation_curves(level.numbers, "gold_utility"), "x", "grpo")
    assert values.shape == (5, 11)


def test_the_table_as_json_holds_no_nan(make_comparison):
    folder = make_comparison({"x": ARMS}, failed=[("x", "par", 2)])
    text = json.dumps(table_as_json(read_table(folder)), allow_nan=False)
    value = json.loads(text)["levels"][0]
    assert value["arms"][1]["score"]["interval"]["estimate"] == pytest.approx(0.6)
    assert value["arms"][0]["new_group_accuracy"]["interval"]["estimate"] is None
    assert value["arms"][0]["pass_at_k"]["2"]["interval"]["estimate"] == pytest.approx(0.6)
    assert value["comparisons"][0]["difference"]["pairs"] == 5
    assert value["statements"][0]["verdict"] == "better"
