"""A watched run folder: what it says at each stage of its life."""

import json
import os
import subprocess
import sys
import time

import pytest
from rich.console import Console

from geoalign.errors import RunFolderError
from geoalign.lab.watch.command import watch
from geoalign.lab.watch.run import WatchedRun
from geoalign.lab.watch.status import read_lock

HOLD = """
import sys, time, pathlib
from geoalign.lab.store.files import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def shown(folder, width=100, encoding="utf-8"):
    """The view as plain text."""
    with open(os.devnull, "w", encoding=encoding) as nowhere:
        console = Console(width=width, height=60, force_terminal=False, record=True, file=nowhere)
        watch(folder, console, once=True)
        return console.export_text()


def row(text, name):
    return next(line for line in text.splitlines() if line.startswith(name))


def test_the_numbers_of_a_run(run):
    run.start()
    run.evaluation(0, "before_rl", accuracy=0.25, count=8)
    run.curated(1)
    run.step(2, step_time=1.0, loss=0.02, ppo_kl=0.001)  # a further update on the same rollouts
    run.evaluation(2, accuracy=0.5, count=8)
    text = shown(run.root)
    assert "curator geoalign, GRPO: step 2 of 10, about 12 s left" in text  # 8 left at (2 + 1) / 2 s
    assert row(text, "reward").split()[1] == "0.25"
    assert row(text, "curated").split()[1] == "0.5"
    assert row(text, "true").split()[1] == "0.75"
    assert "5 of 40 scored (12.5%)" in row(text, "flagged")
    assert "4; 4 so far" in row(text, "replaced")
    assert "0.66 (0.58 to 0.74), chance 0.5" in row(text, "consensus")
    assert "clear of chance in 1 of the last 1" in text
    assert "1.5 s a step, curation 0.2 s a generation" in row(text, "speed")
    assert row(text, "loss").split()[1] == "0.02"
    assert row(text, "KL").split()[1] == "0.001"
    assert "33 tokens, 12.5% cut short" in row(text, "length")
    assert "accuracy 50.0% (step 2; first 25.0%)" in row(text, "eval test")


def test_consensus_that_comes_and_goes(run):
    run.start()
    for step in range(1, 31):
        run.curated(step, **{"geoalign/new_group_accuracy_low": 0.4 if step % 4 else 0.6})
    assert "clear of chance in 5 of the last 20" in shown(run.root)  # 12, 16, 20, 24, 28


def test_what_a_curator_does_instead_of_replacing(run):
    run.start()
    run.curated(1, **{"geoalign/replaced": 0.0, "geoalign/zero_weighted": 3.0})
    text = shown(run.root)
    assert "3; 3 so far" in row(text, "weight 0")
    assert "replaced" not in text


def test_the_warm_start_has_its_own_rows(run):
    run.start()
    run.step(3, "sft", loss=1.5, mean_token_accuracy=0.5)
    text = shown(run.root)
    assert "warm start: step 3 of 5" in text
    assert row(text, "loss").split()[1] == "1.5"
    assert "reward" not in text


def test_a_run_without_a_curator_shows_what_there_is(run):
    run.start({"curator": {"type": "grpo"}, "grpo": None})
    run.step(1, reward=0.5, loss=0.1)
    text = shown(run.root)
    assert "step 1\n" in text
    assert "flagged" not in text
    assert "consensus" not in text


def test_steps_from_a_checkpoint_or_from_epochs(run):
    run.start({"curator": {"type": "grpo"}, "grpo": {"num_train_epochs": 2}})
    run.step(30, epoch=0.5, reward=0.5)
    watched = WatchedRun(run.root)
    watched.look()
    assert watched.total_steps("rl") == 120  # 30 / 0.5 x 2
    state = run.root / "checkpoints" / "rl" / "checkpoint-10" / "trainer_state.json"
    state.parent.mkdir(parents=True)
    state.write_text("half wri")
    assert watched.total_steps("rl") == 120
    state.write_text(json.dumps({"max_steps": 123}))
    assert watched.total_steps("rl") == 123


def test_before_anything_is_written(run):
    with pytest.raises(RunFolderError, match="expected the folder of a run or a comparison, got nothing"):
        watch(run.root, Console(), once=True)
    run.root.mkdir()
    assert "waiting: nothing is written yet" in shown(run.root)
    run.start()
    assert "no line yet" in shown(run.root)


def test_what_is_no_run_is_an_error(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text("{}")
    with pytest.raises(RunFolderError, match="got a file"):
        watch(file, Console(), once=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("x")
    with pytest.raises(RunFolderError, match=r"got one with notes\.txt and neither config\.yaml nor compare\.yaml"):
        watch(other, Console(), once=True)


def test_a_finished_run(run):
    run.start()
    run.curated(10)
    run.finish()
    text = shown(run.root)
    assert "finished, last line" in text
    assert "left" not in text.splitlines()[1]


def test_running_then_killed(run):
    run.start()
    run.curated(1)
    assert "no lock file says whether it runs" in shown(run.root)
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run.root)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        assert f"running (process {process.pid}), last line" in shown(run.root)
        assert read_lock(run.root).process == process.pid
        # Looking takes no lock: the holder keeps it, and looking again says the same.
        assert read_lock(run.root).held == "held"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    past = time.time() - 180
    os.utime(run.root / "metrics.jsonl", (past, past))
    text = shown(run.root, width=200)
    assert (
        f"stopped before its end: no process holds the run, last one (process {process.pid}); last line 3 min ago"
        in text
    )


def test_cut_back_by_a_resumption(run):
    run.start()
    run.curated(1)
    run.curated(2, reward=0.9)
    watched = WatchedRun(run.root)
    watched.look()
    beside = run.root / "metrics.jsonl.tmp"
    beside.write_text(json.dumps({"stage": "rl", "step": 1, "reward": 0.25}) + "\n")
    beside.replace(run.root / "metrics.jsonl")
    assert watched.look().restarted
    assert watched.history.stages["rl"].history("reward") == [0.25]
    run.step(2, reward=0.5)
    assert not watched.look().restarted
    assert watched.history.stages["rl"].history("reward") == [0.25, 0.5]


def test_hostile_content_is_shown_as_text(run):
    evil = "\x1b[2J\u202e[bold]x[/bold]"
    run.start({"curator": {"type": evil}, "grpo": {"max_steps": "many"}})
    run.curated(1, reward=1e300, **{"geoalign/anomalous": 1e300, "step_time": 1e300, "loss": 10**400})
    run.step(2, evil, loss=True, reward="0.5", step_time=None)
    run.append(
        "metrics.jsonl",
        '{"stage": "rl", "step": "three"}\n{"stage": "rl", "step": 1e400}\n{"stage": "rl", "step": 1e300}\nnull\n[]\n',
    )
    run.append("metrics.jsonl", '{"stage": "rl", "step": 3, "reward": NaN, "loss": Infinity}\n')
    run.append("evaluation.jsonl", '{"stage": "rl", "step": 3, "set": {"a": 1}}\n')
    for number in range(9):
        run.evaluation(1, name=evil + str(number), accuracy=None)
    text = shown(run.root)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "curator <U+001B>[2J<U+202E>[bold]x[/bold]" in text
    assert "3 more evaluation sets" in text
    assert "6 unreadable lines are left out" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("width", [20, 40, 64, 200])
def test_any_width(run, width):
    run.start()
    for step in range(1, 200):
        run.curated(step, reward=step / 200)
    run.evaluation(1, name="a_long_name_of_a_set")
    text = shown(run.root, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert ("█" in text) == (width >= 64)


def test_a_terminal_without_unicode(run):
    run.start()
    run.curated(1, reward=0.0)
    run.curated(2, reward=1.0)
    run.evaluation(1, name="näme")
    text = shown(run.root, encoding="ascii")
    assert text.isascii()
    assert row(text, "reward").endswith("_#") or "_#" in row(text, "reward")
    assert "n<U+00E4>me" in text
