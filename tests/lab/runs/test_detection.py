import dataclasses
import json
import math

import numpy as np
import pytest
from pandas import DataFrame

from geoalign.lab.runs.consensus import consensus
from geoalign.lab.runs.detection import ScoreDetection, detect, detection_over_units
from geoalign.lab.runs.generations import generation_numbers
from geoalign.lab.runs.numbers import numbers_of
from geoalign.lab.runs.reading import read_run
from geoalign.statistics import Interval, mean_interval

NAN = math.nan
UNKNOWN = Interval(NAN, NAN, NAN)


@pytest.fixture
def batch(rollout_step):
    """Group 0: rewards 1, 0, 0; group 1: a tie; group 2: a reward, and a row without one. Rows 0 and 1 count."""
    return rollout_step(
        reward=[1.0, 0.0, 0.0, 1.0, 1.0, 2.0, NAN],
        group=[0, 0, 0, 1, 1, 2, 2],
        flipped=[True, False, False, True, False, False, True],
        flip_known=[True, True, False, True, True, True, True],
        score=[0.5, 0.4, 9.0, 0.0, 9.0, 9.0, 0.0],
    )


def test_counts_by_hand(batch):
    flagged = dataclasses.replace(batch, anomalous=np.array([True, True, True, True, False, False, False]))
    found = generation_numbers(flagged)
    assert [found[name] for name in ("in_pair", "in_pair_wrong")] == [2, 1]
    # Of the four flagged, row 2 is of unknown truth; rows 0 and 3 are corrupted; of these row 0 alone is in a pair.
    assert [found[name] for name in ("flagged_known", "flagged_wrong", "flagged_found")] == [3, 2, 1]
    assert [found[name] for name in ("rollouts", "flagged", "known", "wrong")] == [7, 4, 6, 3]


def test_the_control_is_the_pair_counts_better_direction():
    areas = DataFrame({
        "auroc/score": [0.7, 0.8, 0.75], "auprc/score": [0.5] * 3,
        "auroc/pair_count": [0.1] * 3, "auprc/pair_count": [0.2] * 3,
        "auroc/fewest_pairs": [0.9] * 3, "auprc/fewest_pairs": [0.2] * 3,
    })  # fmt: skip
    found = detection_over_units(areas, precision=UNKNOWN, base_rate=UNKNOWN, interval=mean_interval)
    assert found.control == "fewest_pairs"
    assert found.gain.interval.estimate == pytest.approx(0.75 - 0.9)
    assert found.gain.pairs == 3
    row = found.row("score")
    assert row == ScoreDetection("score", mean_interval(np.array([0.7, 0.8, 0.75])), Interval(0.5, 0.5, 0.5), 3)
    nothing = DataFrame({"auroc/score": [NAN, NAN]})
    assert detection_over_units(nothing, precision=UNKNOWN, base_rate=UNKNOWN, interval=mean_interval) is None


def detected(folder):
    run = read_run(folder)
    return detect(run, numbers_of(run))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"curator": "grpo"}, "gives no scores"), ({"flip": 0.0}, "No reward of this run was flipped")],
)
def test_why_nothing_is_found(make_run, settings, message):
    assert message in detected(make_run(steps=2, **settings)).undefined


def test_unknown_truth_and_absent_rollouts_are_told_apart(make_run, write_rows):
    folder = make_run(steps=1)
    write_rows(folder, 1, [{"reward": 1.0, "score": 1.0}, {"reward": 0.0, "score": 2.0}])
    assert "Nothing says which rewards are wrong" in detected(folder).undefined
    write_rows(folder, 1, [{"reward": 1.0}, {"reward": 1.0}])
    assert "no group held two rollouts with different rewards" in detected(folder).undefined
    (folder / "rollouts" / "step-000001.parquet").unlink()
    assert "holds no rollouts" in detected(folder).undefined


@pytest.fixture
def verdict_of(make_run):
    folder = make_run(steps=1)

    def of(accuracies, *, half=0.1, curator="geoalign"):
        lines = [
            {"stage": "rl", "step": step, "geoalign/new_group_accuracy": value,
             "geoalign/chance_accuracy": 0.5, "geoalign/new_group_accuracy_low": value and value - half,
             "geoalign/new_group_accuracy_high": value and value + half}
            for step, value in enumerate(accuracies, 1)
        ]  # fmt: skip
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "config.yaml").write_text(f"curator: {{type: {curator}}}\n")
        run = read_run(folder)
        return consensus(run, numbers_of(run))

    return of


@pytest.mark.parametrize(
    ("accuracies", "half", "level", "said"),
    [
        # Mean 0.70, standard deviation 0.02: the t interval 0.70 +- 4.303 * 0.02 / sqrt(3) = 0.65 to 0.75.
        ([0.68, 0.70, 0.72], 0.1, "yes", "70.0% of pairs (mean over 3 steps; 95% interval 65.0% to 75.0%; chance 50%)"),
        # Mean 0.52, standard deviation 0.10: 0.52 +- 4.303 * 0.10 / sqrt(3) = 0.27 to 0.77.
        ([0.42, 0.52, 0.62], 0.1, "no", "27.2% to 76.8%"),
        ([0.30, 0.31, 0.32], 0.1, "against", "31.0%"),
        # Sixteen steps: a last quarter of 0.48, 0.50, 0.50, 0.52, whose interval holds one half.
        ([0.8] * 12 + [0.48, 0.50, 0.50, 0.52], 0.1, "faded", "last 4 of these steps it was 50.0%"),
        # A single step has its own interval over groups.
        ([None, 0.65], 0.1, "yes", "one step"),
        ([None, 0.65], 0.2, "no", "one step"),
        ([None], 0.1, "unknown", "trains no projector"),
    ],
)
def test_the_verdict(verdict_of, accuracies, half, level, said):
    verdict = verdict_of(accuracies, half=half)
    assert verdict.level == level
    assert said in verdict.text


def test_without_a_projector_the_reason_is_told(verdict_of):
    assert "looks for no consensus" in verdict_of([None], curator="grpo").text
