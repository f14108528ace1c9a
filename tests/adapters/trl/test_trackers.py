"""A tiny training whose trackers are the real ones: what a person finds in them. Run by `make test-trackers`."""

import json
import os
import sqlite3
import subprocess
import sys

import pytest
import torch
from trl_parts import Scripted, best_of_group, curation, trainer

from geoalign.adapters.trl.flagged_traces import FLAGGED
from geoalign.curators.alarms import raise_alarm

for needed in ("trackio", "wandb", "tensorboard"):
    pytest.importorskip(needed)

METRICS = {"anomalous_share", "changed_share", "seconds", "curated_reward"}
COLUMNS = {"prompt", "completion", "score", "anomalous", "source", "advantage"}


def flagging(rollouts):
    """The rows that are replaced are flagged, and the second batch is an alarm."""
    made = best_of_group(rollouts)
    moved = made.source != torch.arange(len(rollouts))
    if rollouts.ids[0].startswith("1:"):
        raise_alarm("the rate has risen", "the rate is 0.3")
    return curation(rollouts, source=made.source, scores=torch.arange(len(rollouts)).float(), anomalous=moved)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a training of two steps in a process of its own left what its trackers wrote."""
    folder = tmp_path_factory.mktemp("trackers")
    environment = {
        **os.environ, "TRACKIO_DIR": str(folder / "trackio"), "WANDB_MODE": "offline", "WANDB_DIR": str(folder),
        "TENSORBOARD_LOGGING_DIR": str(folder / "tensorboard"), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    paths = os.pathsep.join(filter(None, sys.path))
    subprocess.run([sys.executable, __file__, folder], env={**environment, "PYTHONPATH": paths}, check=True)
    return folder


def train(folder):
    reports = {"report_to": ["trackio", "wandb", "tensorboard"], "project": "sums", "run_name": "run"}
    made = trainer(folder / "out", Scripted(flagging), log_completions=True, **reports)
    made.train()


def rows_of(folder, table):
    """The rows of a table of trackio's database, as dicts."""
    with sqlite3.connect(folder / "trackio" / "sums.db") as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(f"SELECT * FROM {table} ORDER BY rowid")]


def test_trackio_has_metrics_the_table_and_the_alarm(folder):
    logged = [json.loads(row["metrics"]) for row in rows_of(folder, "metrics")]
    names = {name for metrics in logged for name in metrics if "geoalign" in name}
    assert names == {f"train/geoalign/{name}" for name in METRICS}
    table = next(metrics["completions"] for metrics in logged if "completions" in metrics)
    assert set(table["_value"][0]) >= COLUMNS
    (alert,) = rows_of(folder, "alerts")
    assert (alert["title"], alert["text"], alert["level"]) == ("the rate has risen", "the rate is 0.3", "warn")


def test_trackio_has_the_flagged_rollouts_as_traces(folder):
    traces = rows_of(folder, "traces")
    assert {trace["key"] for trace in traces} == {FLAGGED}
    assert {trace["step"] for trace in traces} == {1, 2}
    for trace in traces:
        assert [message["role"] for message in json.loads(trace["messages"])] == ["user", "assistant"]
        metadata = json.loads(trace["metadata"])
        assert {"score", "reward", "outcome"} <= set(metadata)
        assert metadata["outcome"] == "replaced by another response"


def test_tensorboard_has_the_metrics(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    found = {name for name in events.Tags()["scalars"] if "geoalign" in name}
    assert found == {f"train/geoalign/{name}" for name in METRICS}


def test_wandb_has_the_table_and_the_alarm(folder):
    (run,) = folder.glob("wandb/offline-run-*")
    tables = [json.loads(path.read_text()) for path in run.glob("files/media/table/*.table.json")]
    assert tables
    assert all(set(table["columns"]) >= COLUMNS for table in tables)
    (log,) = run.glob("run-*.wandb")
    content = log.read_bytes()
    assert b"the rate has risen" in content
    assert b"train/geoalign/anomalous_share" in content


if __name__ == "__main__":
    from pathlib import Path

    train(Path(sys.argv[1]))
