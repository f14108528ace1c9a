"""Terminal summary, report and comparison read the same numbers from the same run."""

import json

import numpy as np
import pyarrow.parquet
import pytest
from rich.console import Console

from geoalign.lab.compare.analysis import analyse
from geoalign.lab.compare.numbers import arm_evaluation_curves, long_frame, numbers_by_run
from geoalign.lab.compare.results import parse_result, result_of
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.runs.consensus import consensus
from geoalign.lab.runs.detection import detect
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.numbers import accuracy_on_new_groups, agreement_over_run, numbers_of
from geoalign.lab.runs.reading import read_run
from geoalign.lab.train.page import before_and_after_rows, build_run_report
from geoalign.lab.train.summary import print_summary, summarise

PLAN = CompareConfig(arms={"geoalign": {}}, levels={"flip": {}}, seeds=[0])


@pytest.fixture
def run(make_run):
    """A run with what the three could count differently: tied groups (in no pair), rows without score or reward."""
    folder = make_run(steps=4, flip=0.15)
    for path in (folder / "rollouts").glob("step-*.parquet"):
        table = pyarrow.parquet.read_table(path)
        rows = table.to_pylist()
        for at in (0, 9, 18):
            rows[at]["score"] = None
        rows[30].update(reward=None, score=None)
        for row in rows[40:48]:  # all right but for one flip, and that one hidden: a group of equal rewards
            row.update(reward=1.0, true_reward=1.0, corrupted=False, score=None)
        rows[40].update(true_reward=0.0, corrupted=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=table.schema), path)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        if line["stage"] == "rl":
            # One generation without a true reward.
            if line["step"] != 2:
                line["geoalign/advantage_cosine"] = 0.5 + 0.1 * line["step"]
            line["geoalign/observed_advantage_cosine"] = 0.3 + 0.05 * line["step"]
            line["geoalign/hidden_seconds"] = 0.05 * line["step"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def numbers(run):
    return numbers_of(read_run(run))


def in_a_comparison(run):
    result = result_of(RunFolder(run))
    whose = {"schema_version": 1, "status": "finished", "curator": "geoalign", "arm": "geoalign"}
    whose |= {"level": "flip", "seed": 0}
    return parse_result({**whose, **result}, run)


def printed(run):
    console = Console(record=True, width=200)
    print_summary(console, summarise(RunFolder(run)), "geoalign", run)
    return console.export_text()


def test_base_rate_precision_and_areas_are_the_same(run):
    summary = summarise(RunFolder(run))["curator"]
    report = detect(read_run(run), numbers(run))
    comparison = result_of(RunFolder(run))["detection"]

    assert summary["corrupted_share"] == report.flags.base_rate
    assert comparison["base_rate"] == pytest.approx(report.flags.base_rate, rel=1e-5)
    areas = {row.score: row for row in report.found.rows}
    assert summary["auroc"] == pytest.approx(areas["score"].auroc.estimate)
    for name, row in areas.items():
        found = (comparison[name]["auroc"], comparison[name]["auprc"], comparison[name]["generations"])
        assert found == pytest.approx((row.auroc.estimate, row.auprc.estimate, row.count), rel=1e-5)
    assert summary["auroc_generations"] == areas["score"].count == 4
    assert summary["corrupted_share_of_anomalous"] == report.found.precision.estimate == report.flags.precision


def test_accuracy_on_new_groups_is_the_same(run):
    summary = summarise(RunFolder(run))["curator"]
    interval = accuracy_on_new_groups(numbers(run))
    ends = (summary["new_group_accuracy_low"], summary["new_group_accuracy_high"])
    assert (summary["new_group_accuracy"], *ends) == pytest.approx((interval.estimate, interval.low, interval.high))
    by_run = numbers_by_run(long_frame([in_a_comparison(run)]), PLAN)
    assert by_run["new_group_accuracy"].tolist() == pytest.approx([interval.estimate], rel=1e-5)
    shown = consensus(read_run(run), numbers(run)).text
    assert f"{interval.estimate:.1%} of pairs" in shown
    assert f"{interval.low:.1%} to {interval.high:.1%}; chance {summary['chance_accuracy']:.0%}" in shown
    assert f"{interval.estimate:.2f} ({interval.low:.2f} to {interval.high:.2f})" in printed(run)


def test_accuracy_is_the_same(run):
    summary = summarise(RunFolder(run))
    rows = before_and_after_rows(numbers(run))
    assert {row.set: row.after["accuracy"] for row in rows} == summary["accuracy"]["after_rl"]
    assert {row.set: row.before["accuracy"] for row in rows} == summary["accuracy"]["before_rl"]
    curve = arm_evaluation_curves(long_frame([in_a_comparison(run)]), "accuracy").tolist()
    ends = [np.mean([getattr(row, when)["accuracy"] for row in rows]) for when in ("before", "after")]
    assert (curve[0], curve[-1]) == pytest.approx(tuple(ends), rel=1e-5)


@pytest.mark.usefixtures("undrawn")
def test_the_advantage_cosine_is_the_same(run):
    # Steps 1, 3 and 4: 0.6, 0.8, 0.9, mean 2.3 / 3; as the rewards came 0.35, 0.4, 0.45, 0.5, mean 0.425.
    found = agreement_over_run(numbers(run))
    applied = found.applied
    assert (applied.estimate, found.observed.estimate, found.generations) == pytest.approx((2.3 / 3, 0.425, 3))
    summary = summarise(RunFolder(run))["curator"]
    assert summary["advantage_cosine"] == pytest.approx(applied.estimate)
    assert summary["advantage_cosine_low"] == pytest.approx(applied.low)
    assert summary["advantage_cosine_high"] == pytest.approx(applied.high)
    assert summary["observed_advantage_cosine"] == pytest.approx(0.425)
    (level,) = analyse([in_a_comparison(run)], PLAN).levels
    for name, value in (("advantage_cosine", applied.estimate), ("observed_advantage_cosine", 0.425)):
        assert level.rows[0].measures[name].interval.estimate == pytest.approx(value, rel=1e-5)
    assert f"{applied.estimate:.3f} ({applied.low:.3f} to {applied.high:.3f})" in printed(run)
    assert " 0.425 " in printed(run)
    page = build_run_report(run).read_text(encoding="utf-8")
    assert f"<strong>{applied.estimate:.3f}</strong> with those of the true rewards (3 generations" in page
