"""The command that runs everything on a GPU: on a CPU, with its steps by a stand-in."""

import functools
import json
from pathlib import Path

import pytest
import torch
from benchmarks.real_model import CONFIG, SMALL, SMALL_RUNS, Work, main, options_of

from geoalign.errors import ConfigError
from geoalign.files.json_files import write_json
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.plan import planned_runs
from geoalign.lab.compare.read_settings import load_compare_config


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def test_the_comparison_has_forty_runs_and_the_small_one_two(tmp_path):
    config, plan = whole()
    assert len(plan) == len(config.seeds) * len(config.arms) * len(config.levels) == 40
    assert config.run.model.path == "runs/models/smollm2-135m"
    assert config.workers == 8
    grpo = config.run.grpo
    generation = grpo["per_device_train_batch_size"] * grpo["steps_per_generation"]
    updates = grpo["steps_per_generation"] // grpo["gradient_accumulation_steps"]
    # Each training problem is answered once.
    assert config.run.task.train_problems == generation // grpo["num_generations"] * (grpo["max_steps"] // updates)
    chosen = {name: value.split(",") for name, value in zip(SMALL_RUNS[::2], SMALL_RUNS[1::2], strict=True)}
    seeds = f"seeds=[{','.join(chosen['--seeds'])}]"
    small = load_compare_config(CONFIG, [*SMALL, seeds], arms=chosen["--curators"], levels=chosen["--levels"])
    assert len(planned_runs(small.config)) == 2


# What the command line refuses.


def test_no_gpu_no_model_and_numbers_out_of_range(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["--model", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    assert "--small tries the command on a CPU" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    for arguments, said in (
        ([], "--model: expected the model's folder"),
        (["--small", "--model", "x"], "--model: expected none with --small"),
        (["--small", "--workers", "0"], "--workers: expected at least 1, got 0"),
        (["--small", "--minutes", "0"], "--minutes: expected a positive number, got 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            options_of(arguments)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


# The steps, without their commands.


@functools.cache
def whole():
    config = load_compare_config(CONFIG).config
    return config, planned_runs(config)


class Commands:
    """Stands in for the commands: notes what was asked for, writes what each leaves, and takes its time."""

    def __init__(self, *, finished=40, seconds=0.0, codes=None):
        self.calls, self.finished, self.seconds, self.codes = [], finished, seconds, codes or {}

    def __call__(self, work, arguments, *, seconds=None):
        kind = arguments[0] if arguments[0] != "geoalign" else arguments[1]
        self.calls.append((kind, list(arguments), seconds))
        work.started -= self.seconds
        if kind == "benchmarks.overhead":
            write_json(Path(arguments[arguments.index("--json") + 1]), {"complete": kind not in self.codes})
        if kind == "compare":
            self.missing = json.loads((work.results / "real_model.json").read_text())["missing"]
        if kind == "compare" and self.finished is not None:  # None: it got not so far as to begin
            folder = ComparisonFolder(Path(arguments[arguments.index("--output") + 1]))
            config, plan = whole()
            folder.initialise(config)
            for planned in plan[: self.finished]:
                folder.write_result(planned, {"status": "finished", "evaluation": [0.5]})
        if (code := self.codes.get(kind, 0)) == 130:
            raise KeyboardInterrupt
        return code


@pytest.fixture
def commands(gpu, monkeypatch):
    def use(**keywords):
        made = Commands(**keywords)
        monkeypatch.setattr(Work, "run", lambda work, arguments, seconds=None: made(work, arguments, seconds=seconds))
        monkeypatch.setattr("benchmarks.real_model.read_table", lambda folder: None)
        monkeypatch.setattr("benchmarks.real_model.table_as_json", lambda table: {"levels": []})
        return made

    return use


def test_everything_in_order_in_one_file_and_nothing_twice(commands, model, tmp_path, capsys):
    out = tmp_path / "out"
    made = commands()
    assert main(["--model", str(model), "--output", str(out), "--workers", "6"]) == 0
    assert [kind for kind, *_ in made.calls] == ["benchmarks.overhead", "benchmarks.overhead", "compare"]
    assert made.calls[0][1][1:4] == ["--rows", "96", "--no-generation"]
    assert made.calls[1][1][1:3] == ["--model", str(model.resolve())]
    comparing = made.calls[2][1]
    assert comparing[2:4] == [str(CONFIG), "--output"]
    assert comparing[-4:] == ["--resume", f"--set=run.model.path={model.resolve()}", "--workers", "6"]
    assert 0 < made.calls[2][2] <= 25 * 60
    found = json.loads((out / "results" / "real_model.json").read_text())
    assert (found["missing"], len(found["runs"]), found["table"]) == ([], 40, {"levels": []})
    assert found["step_of_1.7b"] == found["step_of_the_model"] == {"complete": True}
    assert found["runs"]["flip_20/grpo/seed-0"]["evaluation"] == [0.5]
    assert "All numbers: " in capsys.readouterr().out
    again = commands()
    assert main(["--model", str(model), "--output", str(out)]) == 0
    assert [kind for kind, *_ in again.calls] == ["compare"]


def test_when_the_time_is_up_nothing_new_is_started_and_what_there_is_stays(commands, model, tmp_path, capsys):
    made = commands(seconds=100.0)
    assert main(["--model", str(model), "--output", str(tmp_path / "out"), "--minutes", "2"]) == 1
    # The first measurement took all but 20 seconds of the two minutes, and 45 are kept back.
    assert [kind for kind, *_ in made.calls] == ["benchmarks.overhead"]
    found = json.loads((tmp_path / "out" / "results" / "real_model.json").read_text())
    not_started = [f"{what}: not started, the time was up" for what in ("step_of_the_model", "the comparison")]
    assert (found["step_of_1.7b"], found["missing"]) == ({"complete": True}, not_started)
    assert f"Missing: {not_started[1]}" in capsys.readouterr().out


def test_what_failed_is_named_and_its_first_parts_are_kept(commands, model, tmp_path):
    commands(codes={"benchmarks.overhead": 130})
    assert main(["--model", str(model), "--output", str(tmp_path / "out")]) == 130
    found = json.loads((tmp_path / "out" / "results" / "real_model.json").read_text())
    assert (found["step_of_1.7b"], found["step_of_the_model"]) == ({"complete": False}, None)
    made = commands(finished=39, codes={"compare": None, "benchmarks.overhead": 1})
    assert main(["--model", str(model), "--output", str(tmp_path / "out")]) == 1
    assert [kind for kind, *_ in made.calls] == ["benchmarks.overhead", "benchmarks.overhead", "compare"]
    found = json.loads((tmp_path / "out" / "results" / "real_model.json").read_text())
    assert found["step_of_1.7b"] == {"complete": False}
    assert found["missing"][0] == "step_of_1.7b: exit code 1; its first parts measured"
    assert found["missing"][-1] == "1 of 40 runs: flip_40/oracle/seed-4 (missing)"
    assert commands().calls == []
    assert main(["--model", str(model), "--output", str(tmp_path / "out")]) == 0  # measured again, and finished


def test_what_is_under_way_is_missing_until_it_is_there(commands, model, tmp_path):
    made = commands(finished=None, codes={"compare": None})
    assert main(["--model", str(model), "--output", str(tmp_path / "out")]) == 1
    found = json.loads((tmp_path / "out" / "results" / "real_model.json").read_text())
    assert found["missing"] == made.missing == ["comparison: not finished"]


# Commands in earnest.


@pytest.mark.slow
def test_the_whole_way_on_a_cpu(tmp_path, capfd):
    out = tmp_path / "out"
    assert main(["--small", "--output", str(out), "--workers", "1"]) == 0
    found = json.loads((out / "results" / "real_model.json").read_text())
    for name, width in (("step_of_1.7b", 64), ("step_of_the_model", 32)):
        assert (found[name]["complete"], found[name]["architecture"]["hidden_size"]) == (True, width)
        assert found[name]["curation"][-1]["curator"] == "denoise"
        assert found[name]["states_difference"] < 1e-5
    assert {name: run["status"] for name, run in found["runs"].items()} == {
        "flip_20/grpo/seed-0": "finished",
        "flip_20/denoise/seed-0": "finished",
    }
    assert (found["small"], found["missing"], len(found["table"]["levels"])) == (True, [], 1)
    assert main(["--small", "--output", str(out), "--workers", "1"]) == 0
    assert "All 2 runs are finished" in capfd.readouterr().out
