"""`geoalign train` under torchrun: two processes on gloo make one run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked import run_ranks
from run_files import rollouts, same_weights

from geoalign.files.json_files import read_lines
from geoalign.lab.runs.folder import MARK, RunFolder
from geoalign.settings.yaml_text import dump_yaml

CURATED = {"curator": {"type": "oracle"}, "evaluation": {"every": 2, "samples": 2}}
CURATED["grpo"] = {"per_device_train_batch_size": 4}

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}
KILLED, EVALUATING = (Path(__file__).parent / name for name in ("killed_process.py", "evaluating_process.py"))


def launch(*arguments: object, processes: int = 2) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.run(
        [*command, *map(str, arguments)], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory, tiny):
    folder = tmp_path_factory.mktemp("processes")
    config = folder / "run.yaml"
    config.write_text(dump_yaml(tiny(**CURATED)))
    ranks = run_ranks(2, "-m", "geoalign", "train", config, "--output", folder / "run", env=ENVIRONMENT)
    assert not any(done.returncode for done in ranks), ranks[0].stderr[-6000:]
    return config, RunFolder(folder / "run"), "".join(done.stdout for done in ranks)


def test_one_run_is_made(finished_run):
    _, folder, said = finished_run
    assert folder.finished()
    assert folder.report.is_file()
    assert folder.read_versions()["processes"] == 2
    assert said.count("report.html") == 1
    assert not list(folder.root.rglob("*.tmp"))
    steps = [line["step"] for line in read_lines(folder.metrics) if line["stage"] == "rl"]
    assert steps == [1, 2, 3, 4]


def test_rows_of_both_processes_are_recorded_and_replaced(finished_run):
    _, folder, _ = finished_run
    rows = rollouts(folder.root)
    assert len(rows) == 32
    assert all(row["corrupted"] == (row["reward"] != row["true_reward"]) for row in rows)
    # Some of the corrupted rewards of each half of both generations, so that both processes drew their own.
    assert all(any(row["corrupted"] for row in rows[start : start + 8]) for start in range(0, 32, 8))
    assert json.loads(folder.summary.read_text())["curator"]["replaced"] > 0


def test_every_problem_is_evaluated_once(finished_run):
    _, folder, _ = finished_run
    lines = read_lines(folder.evaluation)
    assert [(line["stage"], line["step"], line["count"]) for line in lines] == [
        ("before_rl", 0, 8),
        ("rl", 2, 8),
        ("after_rl", 4, 8),
    ]


def test_an_evaluation_does_not_depend_on_the_number_of_processes(finished_run, tmp_path):
    _, folder, _ = finished_run
    lines, texts = [], []
    for count in (1, 3):
        root = tmp_path / str(count)
        root.mkdir()
        for done in run_ranks(count, EVALUATING, folder.root, root, env=ENVIRONMENT):
            assert done.returncode == 0, done.stderr[-6000:]
        lines.append((root / "evaluation.jsonl").read_text())
        texts += [json.loads((root / f"texts-{rank}.json").read_text()) for rank in range(count)]
    assert lines[0] == lines[1]
    assert all(found == texts[0] for found in texts)
    assert len(texts[0]) == 8  # 4 problems x 2
    assert len(set(texts[0])) > 4


# With the second, process 0 has written its part of a checkpoint that process 1 has not.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "place"), [(0, "rollouts/step-000002.parquet.tmp"), (1, "checkpoints/rl/checkpoint-4")]
)
def test_a_killed_run_goes_on_to_the_same_weights(finished_run, tmp_path, rank, place):
    config, folder, _ = finished_run
    killed = launch(KILLED, config, tmp_path / "run", rank, place)
    assert killed.returncode != 0
    assert (tmp_path / "run" / "checkpoints" / "rl" / "checkpoint-2").is_dir()
    assert not (tmp_path / "run" / "checkpoints" / "rl" / "checkpoint-4" / MARK).exists()
    assert not RunFolder(tmp_path / "run").finished()
    again = ("-m", "geoalign", "train", config, "--output", tmp_path / "run", "--resume")
    alone = launch(*again, processes=1)
    assert alone.returncode != 0
    assert "expected 2 processes, as the run was started, got 1" in alone.stderr
    resumed = launch(*again)
    assert resumed.returncode == 0, resumed.stderr[-6000:]
    assert same_weights(folder.root, tmp_path / "run")
    assert folder.evaluation.read_text() == (tmp_path / "run" / "evaluation.jsonl").read_text()
