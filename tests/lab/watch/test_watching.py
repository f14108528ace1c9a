"""The command: a folder that really grows, line by line; a comparison; the command line."""

import io
import json
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from geoalign.errors import RunFolderError
from geoalign.lab.cli import app
from geoalign.lab.config.compare_loading import load_compare_config
from geoalign.lab.config.comparison_plan import make_plan
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.json_files import write_json
from geoalign.lab.watch.command import ComparisonWatch, RunWatch, watch


def lines_of(folder, during, *, terminal=False, **options):
    """What watching prints while `during` writes, until it ends by itself."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, height=50)
    failures = []

    def watching():
        try:
            watch(folder, console, interval=0.02, **options)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=watching, daemon=True)
    thread.start()
    during(lambda text: wait_for(console, text, failures))
    thread.join(timeout=20)
    assert not thread.is_alive()
    if failures:
        raise failures[0]
    return console.file.getvalue()


def wait_for(console, text, failures):
    """Returns once `text` was printed."""
    until = time.monotonic() + 20
    while text not in console.file.getvalue():
        assert not failures, failures
        assert time.monotonic() < until, console.file.getvalue()
        time.sleep(0.01)


def test_a_growing_run_line_by_line(run):
    def write(wait):
        wait("waiting: there is no such folder yet")
        run.start()
        wait("not finished; no lock file says whether it runs; no line yet")
        run.evaluation(0, "before_rl", accuracy=0.25, count=8)
        wait("evaluation test at step 0  accuracy 25.0%")
        for step in range(1, 11):
            whole = json.dumps({"stage": "rl", "step": step, "reward": step / 10, "geoalign/anomalous": step})
            run.append("metrics.jsonl", whole[:17])
            run.append("metrics.jsonl", whole[17:] + "\n")
            wait(f"GRPO {step}/10  reward {step / 10:.3g}  flagged {step}")
        run.finish()

    text = lines_of(run.root, write)
    assert text.count("GRPO 3/10") == 1
    assert text.splitlines()[-1].startswith("finished, last line")
    assert "\x1b" not in text


def test_lines_that_came_with_the_end_are_not_lost(run):
    run.start()
    run.curated(9)
    run.curated(10)
    run.finish()
    text = lines_of(run.root, lambda wait: None)
    assert "GRPO 9/10" in text
    assert "GRPO 10/10" in text


def test_what_is_written_between_the_last_look_and_the_end_is_told(run, monkeypatch):
    run.start()
    run.curated(9)
    watched = RunWatch(run.root)
    look = watched.run.look

    def then_the_run_ends():
        found = look()
        run.curated(10)
        run.finish()
        return found

    monkeypatch.setattr(watched.run, "look", then_the_run_ends)
    assert not watched.look()
    monkeypatch.setattr(watched.run, "look", look)
    assert watched.look()
    assert any(line.startswith("GRPO 10/10") for line in watched.lines("utf-8"))


def test_a_live_view_ends_with_the_run(run):
    def write(wait):
        wait("Ctrl-C leaves")
        run.curated(1, reward=0.123)
        wait("0.123")
        run.finish()

    run.start()
    assert "finished, last line" in lines_of(run.root, write, terminal=True)


def test_following_a_finished_run_that_is_gone_on_with(run):
    run.start()
    run.curated(1)
    run.finish()
    console = Console(file=io.StringIO(), width=100)
    threading.Thread(
        target=watch, args=(run.root, console), kwargs={"follow": True, "interval": 0.02}, daemon=True
    ).start()
    wait_for(console, "finished, last line", [])
    run.curated(2)
    wait_for(console, "GRPO 2/10", [])


def test_a_run_whose_folder_is_removed(run):
    run.start()
    run.curated(1)

    def write(wait):
        wait("GRPO 1/10")
        for path in sorted(run.root.iterdir()):
            path.unlink()
        run.root.rmdir()

    assert "the folder is gone" in lines_of(run.root, write).splitlines()[-1]


def test_a_folder_that_turns_out_to_be_another(tmp_path):
    folder = tmp_path / "folder"

    def write(wait):
        wait("waiting")
        folder.mkdir()
        (folder / "notes.txt").write_text("x")

    with pytest.raises(RunFolderError, match=r"got one with notes\.txt"):
        lines_of(folder, write)


@pytest.fixture
def comparison(tmp_path):
    """A folder of four runs, none of which has begun."""
    folder = ComparisonFolder(tmp_path / "compare")
    config = load_compare_config(arms=["grpo", "geoalign"], seeds=[0, 1]).config
    folder.initialise(config)
    return folder, make_plan(config)


def result(folder, planned, status, error=None):
    write_json(folder.result(planned.cell), {"schema_version": 1, "status": status, "error": error})


def test_a_comparison(comparison):
    folder, plan = comparison
    shown = io.StringIO()
    console = Console(file=shown, width=100, height=50)
    watch(folder.root, console, once=True)
    assert "0 of 4 runs finished, 4 waiting" in shown.getvalue()
    result(folder, plan[0], "finished")
    result(folder, plan[1], "failed", "killed by \x1b[2J[red]signal 9")
    with holding(folder.run(plan[2].cell)) as run:
        (run.root / "metrics.jsonl").write_text('{"stage": "rl", "step": 7, "reward": 0.5}\n')
        watch(folder.root, console, once=True)
    text = shown.getvalue()
    assert "1 of 4 runs finished, 1 failed, 1 running, 1 waiting" in text
    name = plan[2].cell.name
    assert any(line.startswith(name) and "GRPO 7" in line and "reward 0.5" in line for line in text.splitlines())
    assert f"{plan[1].cell.name} failed: killed by <U+001B>[2J[red]signal 9" in text


class holding:  # noqa: N801
    """A run whose lock another process holds."""

    def __init__(self, run):
        self.run = run

    def __enter__(self):
        code = (
            "import sys, time, pathlib\nfrom geoalign.lab.store.files import locked\n"
            "with locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(self.run.root)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "held\n"
        return self.run

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_a_comparison_line_by_line_to_its_end(comparison):
    folder, plan = comparison

    def write(wait):
        wait("0 of 4 runs finished, 4 waiting")
        for number, planned in enumerate(plan, 1):
            failed = number == 3
            result(folder, planned, "failed" if failed else "finished", "no space" if failed else None)
            wait(f"{planned.cell.name} {'failed: no space' if failed else 'finished'}")

    text = lines_of(folder.root, write)
    assert "3 of 4 runs finished, 1 failed; nothing is left to run" in text


def test_hostile_names_in_lines_and_in_the_folders_own(tmp_path, run):
    evil = "\x1b[2J\u202e[bold]x[/bold]"
    shown = "<U+001B>[2J<U+202E>[bold]x[/bold]"
    run = type(run)(tmp_path / evil)
    run.start()
    run.step(1, evil, loss=0.5)
    run.evaluation(1, name=evil)
    run.finish()
    lines = lines_of(run.root, lambda wait: None)
    assert f"{shown} 1  loss 0.5" in lines
    assert f"evaluation {shown} at step 1" in lines
    console = Console(file=io.StringIO(), width=300)
    watch(run.root, console, once=True)
    view = console.file.getvalue()
    assert view.splitlines()[0].endswith(shown)
    assert f"{shown}: step 1" in view
    assert not any(character in lines + view for character in "\x1b\u202e")


def test_a_comparison_is_not_over_while_a_process_works_on_it(comparison):
    folder, plan = comparison
    for planned in plan:
        result(folder, planned, "finished")
    watched = ComparisonWatch(folder.root)
    with holding(folder):
        # Its report is still to be written.
        assert not watched.look()
        assert "running (process" in watched.lines("utf-8")[-1]
    assert watched.look()


def test_results_are_read_once(comparison, monkeypatch):
    from geoalign.lab.watch import comparison as watching

    folder, plan = comparison
    reads = []
    read = watching.read_result
    monkeypatch.setattr(watching, "read_result", lambda path: reads.append(path) or read(path))
    result(folder, plan[0], "finished")
    watched = watching.WatchedComparison(folder.root)
    assert set(watched.look()) == {planned.cell.name for planned in plan}
    assert watched.look() == {}
    assert len(reads) == 1
    result(folder, plan[1], "failed", "x")
    assert set(watched.look()) == {plan[1].cell.name}
    assert len(reads) == 2


def test_the_command_line(run):
    run.start()
    run.curated(1)
    runner = CliRunner()
    found = runner.invoke(app, ["watch", str(run.root), "--once"])
    assert found.exit_code == 0
    assert "GRPO: step 1 of 10" in found.stdout
    run.finish()
    found = runner.invoke(app, ["watch", str(run.root)])
    assert found.exit_code == 0
    assert "GRPO 1/10" in found.stdout
    missing = subprocess.run(
        [sys.executable, "-m", "geoalign", "watch", str(run.root / "none"), "--once"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert missing.returncode == 2
    assert "expected the folder of a run or a comparison, got nothing of that name" in missing.stderr
    assert "Traceback" not in missing.stderr
