import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geoalign.files.json_files import append_lines
from geoalign.lab.compare.results import result_of
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.rollouts import ROLLOUT_SCHEMA

COUNTS = {"correct": 1, "count": 3}


def rollouts(step, **changes):
    """Two groups of two: the second row of group 0 was flipped and is replaced by the first."""
    columns = {
        "step": [step] * 4, "row": [0, 1, 2, 3], "group": [0, 0, 1, 1], "sample": [0, 1, 0, 1],
        "prompt": ["a", "a", "b", "b"], "response": ["w", "x", "y", "z"], "reward": [0.0, 1.0, 1.0, 0.0],
        "true_reward": [0.0, 0.0, 1.0, 0.0], "corrupted": [False, True, False, False], "score": [0.1, 0.5, 0.2, 0.3],
        "anomalous": [False, True, False, True], "source": [0, 0, 2, 3], "weight": [1.0] * 4, "tokens": [1] * 4,
    }  # fmt: skip
    return pa.table(columns | changes, schema=ROLLOUT_SCHEMA)


@pytest.fixture
def folder(tmp_path):
    found = RunFolder(tmp_path / "run")
    found.rollouts.mkdir(parents=True)
    found.config.write_text("curator: {type: geoalign}\n")
    found.versions.write_text('{"schema_version": 1}')
    for step in (0, 2):
        pq.write_table(rollouts(step), found.rollouts / f"step-{step:06d}.parquet")
    lines = [
        {"stage": "sft", "step": 1, "loss": 1.0},
        {"stage": "rl", "step": 1, "reward": 0.5, "ppo_kl": 0.0, "clip_ratio/region_mean": 0.0, "step_time": 3.0},
        {"stage": "rl", "step": 2, "ppo_kl": 0.01, "clip_ratio/region_mean": 0.125, "step_time": 1.0},
        {"stage": "rl", "step": 3, "reward": 0.25, "ppo_kl": float("nan"), "step_time": 2.0},
    ]
    lines[1] |= {"geoalign/pairs": 2.0, "geoalign/replaced": 1.0, "geoalign/seconds": 0.5, "geoalign/anomalous": 2.0}
    lines[3] |= {"geoalign/pairs": 2.0, "geoalign/seconds": 0.25, "geoalign/hidden_seconds": 0.5}
    lines[3] |= {"geoalign/appeals_asked": 13.0}
    append_lines(found.metrics, lines)
    append_lines(found.evaluation, [{"step": 0, "stage": "before_rl", "set": "a", "accuracy": 1 / 3, **COUNTS}])
    return found


def test_series_stand_side_by_side(folder):
    series = result_of(folder)["series"]
    expected = {
        "step": [1, 2, 3], "reward": [0.5, None, 0.25], "ppo_kl": [0.0, 0.01, None],
        "clip_fraction": [0.0, 0.125, None], "replaced": [1.0, None, None], "new_group_accuracy": [None, None, None],
        "appeals_asked": [None, None, 13.0],
        # Update 2 uses the generation of update 1 again: nothing is curated. Update 3: 0.25 and a pass of 0.5 seconds.
        "curation_seconds": [0.5, 0.0, 0.75],
        # The generations made after 0 and 2 updates are first logged with updates 1 and 3; one of four was truly right.
        "true_reward": [0.25, None, 0.25],
    }  # fmt: skip
    assert {name: series[name] for name in expected} == expected
    assert {len(column) for column in series.values()} == {3}


def test_the_rest_of_the_result(folder):
    found = result_of(folder)
    assert found["evaluations"] == [{"step": 0, "stage": "before_rl", "set": "a", "accuracy": 0.333333, **COUNTS}]
    assert found["seconds_per_step"] == 2.0  # (3 + 1 + 2) / 3
    # Corrupted .5 against .1, .2, .3 in both generations; each of the four rows is in one pair.
    assert found["detection"]["score"] == {"auroc": 1.0, "auprc": 1.0, "generations": 2}
    assert found["detection"]["pair_count"]["auroc"] == 0.5
    assert found["detection"]["precision_among_replaced"] == 1.0  # anomalous row 3 was not replaced
    assert found["detection"]["base_rate"] == 0.25
    assert [item["step"] for item in found["snapshots"]] == [0, 2]
