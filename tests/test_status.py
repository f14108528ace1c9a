import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import call

from geoalign.dumps.response_files import SavedResponse, write_responses
from geoalign.files.json_files import append_line, write_json
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.plan import planned_runs
from geoalign.lab.compare.read_settings import load_compare_config
from geoalign.lab.evaluate.folder import EvaluationFolder, Recorded
from geoalign.lab.models.rows import ResponseRow

HOLD = """
import sys, time, pathlib
from geoalign.files.durable import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """Another process holds the lock of a folder; gives its number."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def status_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def say(folder: Path) -> list[str]:
        code = call(monkeypatch, "status", folder)
        written = capsys.readouterr()
        assert (code == 0) == (written.err == "")
        return (written.err or written.out).splitlines()

    return say


def start(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "versions.json").write_text('{"schema_version": 1}')
    (folder / "config.yaml").write_text(yaml.safe_dump({"curator": {"type": "geoalign"}, "grpo": {"max_steps": 10}}))


def step(folder: Path, number: int, stage: str = "rl", **values: float) -> None:
    append_line(folder / "metrics.jsonl", {"stage": stage, "step": number, **values})


def test_a_run_from_its_start_to_its_end(status_lines: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with held(run) as process:
        assert status_lines(run) == [f"{run}: running (process {process}), no line yet"]
        start(run)
        step(run, 5, "sft", loss=9.0, mean_token_accuracy=0.5)
        step(run, 1, reward=0.25, loss=0.5)
        step(run, 2, loss=-0.125)  # a second update on the same rollouts
        evaluation = {"step": 2, "stage": "rl", "set": "test", "accuracy": 0.5, "correct": 4, "count": 8}
        append_line(run / "evaluation.jsonl", {**evaluation, "step": 0, "stage": "before_rl"})
        append_line(run / "evaluation.jsonl", evaluation)
        for name in ("metrics.jsonl", "evaluation.jsonl"):
            os.utime(run / name, (time.time() - 610,) * 2)
        assert status_lines(run) == [
            f"{run}: running (process {process}), last line 10 min ago",
            "RL, step 2 of 10: reward 0.25, loss -0.125",
            "evaluation on test at step 2: accuracy 0.5",
        ]
    assert status_lines(run)[0].startswith(f"{run}: no process works on it (resume with --resume), last line 10 min")
    (run / "summary.json").write_text("{}")
    assert status_lines(run)[0].startswith(f"{run}: finished, last line 10 min")


def test_a_comparison(status_lines: Any, tmp_path: Path) -> None:
    folder = ComparisonFolder(tmp_path / "compare")
    config = load_compare_config(None, ["seeds=[0,1]"], arms=["grpo", "geoalign"]).config
    folder.initialise(config)
    first, second, third, _ = (planned.cell for planned in planned_runs(config))
    with held(folder.root) as process, held(folder.shared):
        step(folder.shared, 7, "sft", loss=1.5)
        lines = status_lines(folder.root)
        assert lines[:2] == [f"{folder.root}: running (process {process})", "4 runs: 4 waiting"]
        assert lines[2].startswith(f"{folder.shared}: running (process ")
        assert lines[3] == "warm start, step 7: loss 1.5"
    for cell, failed in ((first, False), (second, True)):
        where = {"arm": cell.arm, "level": cell.level, "seed": cell.seed, "status": "failed" if failed else "finished"}
        error = {"error": "killed by \x1b[2J[red]signal 9"} if failed else {}
        empty = {"settings": {}, "run": {}, "evaluations": [], "series": {}, "detection": {}, "snapshots": []}
        write_json(folder.result(cell), {"schema_version": 1, "curator": "grpo", **empty, **where, **error})
    with held(folder.run(third).root):
        step(folder.run(third).root, 3, reward=0.5)
        lines = status_lines(folder.root)
    assert lines[0] == f"{folder.root}: no process works on it (resume with --resume)"
    assert lines[1] == "4 runs: 1 finished, 1 failed, 1 running, 1 waiting"
    assert lines[3] == "RL, step 3: reward 0.5"
    assert lines[4:] == [f"{second.name} failed: killed by <U+001B>[2J[red]signal 9"]


def test_a_run_that_fills_several_cells_counts_once(status_lines: Any, tmp_path: Path) -> None:
    folder = ComparisonFolder(tmp_path / "compare")
    levels = ["levels.flip_20={reward: {flip: 0.2}}", "seeds=[0]"]
    config = load_compare_config(None, levels, arms=["grpo", "clean"]).config
    folder.initialise(config)
    plan = planned_runs(config)
    # GRPO at two levels, and the run without wrong rewards, which is the same at both.
    assert folder.cells_by_run() == [planned.cells for planned in plan]
    with held(folder.run(plan[1].cell).root):
        assert status_lines(folder.root)[1] == "3 runs: 1 running, 2 waiting"
    for planned in plan:
        folder.write_result(planned, {"status": "finished", "error": None})
    assert status_lines(folder.root) == [f"{folder.root}: finished", "3 runs: 3 finished"]
    # A level that was added and not yet run: of it, too, the run without wrong rewards is there.
    folder.result(plan[1].cells[1]).unlink()
    assert status_lines(folder.root)[1] == "3 runs: 3 finished"


def test_what_is_no_run_is_one_line(status_lines: Any, tmp_path: Path) -> None:
    expected = "expected the folder of a run, comparison, audit, evaluation or judging, got none of them"
    assert status_lines(tmp_path) == [f"Error: {tmp_path}: {expected}"]


def test_an_audit(
    status_lines: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rollouts = tmp_path / "rollouts.jsonl"
    for prompt in ("1+1?", "2+2?"):
        for reward in (0.0, 1.0, 1.0):
            append_line(rollouts, {"prompt": prompt, "response": f"{reward}", "reward": reward})
    folder = tmp_path / "audit"
    assert call(monkeypatch, "audit", rollouts, "--curator", "grpo", "--output", folder) == 0
    capsys.readouterr()
    assert status_lines(folder) == [
        f"{folder}: audit, finished",
        "0 of 6 rewards look wrong",
        "2 groups, 1 file",
    ]
    (folder / ".partial").mkdir()
    assert status_lines(folder) == [f"{folder}: audit, no process works on it (the same command starts again)"]


def test_an_evaluation_that_grows(status_lines: Any, tmp_path: Path) -> None:
    folder = EvaluationFolder(tmp_path / "scores")
    folder.root.mkdir()
    recorded = Recorded({"temperature": 1.0}, {"tiny": {}}, {"mine": {}}, asked={"tiny": {"mine": 4}})
    folder.begin(recorded, [], resume=False)
    rows = [
        ResponseRow("tiny", "mine", "line 1", sample, "[]", "", "1", 1.0, True, None, 1, 1, False)
        for sample in range(4)
    ]
    folder.add(rows[:3])
    waiting = f"{folder.root}: evaluation, no process works on it (resume with --resume)"
    assert status_lines(folder.root) == [waiting, "tiny, mine: 3 of 4 responses"]
    folder.add(rows[3:])
    accuracy = {"estimate": 1.0, "low": 0.5, "high": 1.0}
    folder.write_result({}, {}, {"models": {"tiny": {"sets": {"mine": {"accuracy": accuracy, "reward": None}}}}})
    assert status_lines(folder.root) == [
        f"{folder.root}: evaluation, finished",
        "tiny, mine: 4 of 4 responses, accuracy 100.0% (50.0% to 100.0%)",
    ]
    # More was asked for since the results were written.
    folder.begin(replace(recorded, asked={"tiny": {"mine": 8}}), [], resume=True)
    assert status_lines(folder.root) == [waiting, "tiny, mine: 4 of 8 responses"]


def test_a_judging(
    status_lines: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prompt = ({"role": "user", "content": "hi"},)
    for name, text in (("a", "longer"), ("b", "short")):
        write_responses(tmp_path / f"{name}.jsonl", [SavedResponse("s", "0", 0, prompt, text, False)])
    folder = tmp_path / "judge"
    files = (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert call(monkeypatch, "judge", *files, "--local", "--output", folder) == 0
    capsys.readouterr()
    first, second = status_lines(folder)
    assert first == f"{folder}: judging, finished"
    assert second.startswith("1 of 1 pairs judged: A won ")
    (folder / "judge.json").unlink()
    assert status_lines(folder) == [
        f"{folder}: judging, no process works on it (the same command resumes)", "1 pairs judged",
    ]  # fmt: skip
