import os
import signal
import sys
import time

import forked
import pytest
import yaml
from command_line import call
from run_files import lines

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def test_of_several_processes_the_first_one_speaks(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, said in (("0", "curator.alfa"), ("1", "")):
        monkeypatch.setenv("RANK", rank)
        assert call(monkeypatch, "train", "--set", "curator.alfa=1", "--output", tmp_path / "run") == 2
        error = capsys.readouterr().err
        assert said in error
        assert bool(error) == bool(said)


@pytest.mark.parametrize(
    ("settings", "folder"),
    [({"output": {"folder": "kept/maths"}}, "kept/smoke_maths"), ({}, "runs/smoke_mine")],
)
def test_a_smoke_test_never_writes_into_the_folder_of_its_run(monkeypatch, tmp_path, settings, folder):
    seen = []

    def train(config, root, **options):
        seen.append(str(root))
        raise KeyboardInterrupt

    monkeypatch.setattr("geoalign.lab.train.train.train", train)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(settings))
    for more in ((), ("--smoke",), ("--smoke", "--output", "elsewhere")):
        assert call(monkeypatch, "train", path, *more) == 130
    full = folder.replace("smoke_", "")
    assert seen == [full, folder, "elsewhere"]


@pytest.fixture(scope="module")
def config(tmp_path_factory, tiny):
    path = tmp_path_factory.mktemp("config") / "tiny.yaml"
    path.write_text(yaml.safe_dump(tiny()))
    return path


@pytest.fixture(scope="module")
def finished(config, tmp_path_factory):
    root = tmp_path_factory.mktemp("finished") / "run"
    done = forked.run("-m", "geoalign", "train", config, "--output", root, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert "Accuracy on arithmetic went from" in done.stdout
    return root


def test_a_finished_run_is_reported_again_by_the_settings_of_its_folder_never_trained_again(
    monkeypatch, capsys, finished
):
    weights = finished / "checkpoints" / "final" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    (finished / "report.html").unlink()
    assert call(monkeypatch, "train", "--output", finished, "--resume") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "is finished: its report is rebuilt" in said
    assert "Accuracy on arithmetic went from" in said
    assert (finished / "report.html").is_file()
    assert weights.stat().st_mtime_ns == before


def test_what_a_finished_run_leaves(finished):
    names = {path.name for path in finished.iterdir()}
    assert {"config.yaml", "versions.json", "metrics.jsonl", "evaluation.jsonl", "summary.json", "report.html"} <= names
    assert [line["stage"] for line in lines(finished)] == ["sft", *["rl"] * 4]
    assert len(list((finished / "rollouts").iterdir())) == 2


def test_ctrl_c_says_how_to_go_on(config, tmp_path):
    root = tmp_path / "run"
    with (tmp_path / "errors").open("wb") as errors, open(os.devnull, "wb") as nowhere:
        endless = ["-m", "geoalign", "train", str(config), "--output", str(root), "--set", "grpo.max_steps=100000"]
        process = forked.Popen([sys.executable, *endless], env=ENVIRONMENT, stdout=nowhere, stderr=errors)
    deadline = time.monotonic() + 120
    while not (root / "metrics.jsonl").is_file() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    said = (tmp_path / "errors").read_text()
    assert "Stopped. Go on with: geoalign train" in said
    assert "--set grpo.max_steps=100000" in said
    assert said.rstrip().endswith("--resume")
    assert "Traceback" not in said
