"""Terminal summary, report and comparison read the same numbers from the same run."""

import dataclasses

import numpy as np
import pyarrow.parquet
import pytest

from geoalign.lab.analysis.detection import pair_counts
from geoalign.lab.analysis.run_detection import FEWEST_PAIRS, GDI, MEAN_GDI, MOST_PAIRS, detect
from geoalign.lab.compare.detection import detection as compared
from geoalign.lab.compare.extract import read_generations
from geoalign.lab.store.run import read_run
from geoalign.lab.train.summary import detection as summarised


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
    return folder


def test_base_rate_precision_and_areas_are_the_same(run):
    summary = summarised(run / "rollouts")
    report = detect(read_run(run), {})
    generations = list(read_generations(run / "rollouts"))
    comparison = compared(generations, mean_score=False)

    assert summary["corrupted_share"] == report.flags.base_rate == comparison["base_rate"]
    areas = {row.name: row for row in report.rows}
    assert summary["auroc"] == pytest.approx(areas[GDI].auroc.estimate)
    assert comparison["score"]["auroc"] == pytest.approx(areas[GDI].auroc.estimate)
    assert comparison["score"]["auprc"] == pytest.approx(areas[GDI].precision.estimate)
    for ours, theirs in (("pair_count", MOST_PAIRS), ("fewest_pairs", FEWEST_PAIRS)):
        assert comparison[ours]["auroc"] == pytest.approx(areas[theirs].auroc.estimate)
    assert summary["auroc_generations"] == comparison["score"]["generations"] == areas[GDI].steps == 4

    # The comparison looks at replaced rows, the others at flagged ones: of the same rows they say the same.
    flagged = [dataclasses.replace(one, replaced=one.anomalous) for one in generations]
    precision = compared(flagged, mean_score=False)["precision_among_replaced"]
    assert summary["corrupted_share_of_anomalous"] == precision == report.flag_precision.estimate
    assert report.flags.precision == precision


def test_the_score_per_pair_is_the_same_where_no_details_were_kept(run):
    report = detect(read_run(run), {})
    comparison = compared(read_generations(run / "rollouts"), mean_score=True)
    areas = {row.name: row for row in report.rows}
    assert comparison["mean_score"]["auroc"] == pytest.approx(areas[MEAN_GDI].auroc.estimate)


def test_the_base_rate_is_over_rows_in_a_pair_counted_by_hand(run):
    rows = corrupted = 0
    for one in read_generations(run / "rollouts"):
        paired = pair_counts(one.reward, one.group) > 0
        rows += int(paired.sum())
        corrupted += int((paired & one.corrupted).sum())
    # The tied group, with a flip in it, and the row without a reward are left out; the unscored rows are not.
    assert rows < 4 * 192 - 4 * 9
    assert summarised(run / "rollouts")["corrupted_share"] == corrupted / rows
    assert np.isfinite(corrupted / rows)
