"""Files and folders that cannot be read or written: one line that names them, whatever the command."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from harness import run

TINY = {
    "model": {"hidden_size": 16, "layers": 1, "heads": 1},
    "task": {"operands": 2, "digits": 1, "train_problems": 16, "evaluation_problems": 8, "demonstrations": 32},
    "curator": {"type": "grpo"},
    "sft": {"max_steps": 1, "per_device_train_batch_size": 4},
    "grpo": {"max_steps": 2, "num_generations": 2, "per_device_train_batch_size": 4, "max_completion_length": 4},
    "evaluation": {"every": None},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with inputs that are in order, and places that are not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(TINY))
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "something").write_text("of another kind")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    rows = [{"prompt": "2+2", "response": str(n), "reward": float(n % 2)} for n in range(8)]
    (tmp_path / "dump.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    row = {
        "set": "s",
        "id": "1",
        "sample": 0,
        "prompt": [{"role": "user", "content": "hi"}],
        "response": "ho",
        "truncated": False,
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


# Root may read and write everything: these no one may.
PLACES = {
    "below a file": "file/x",
    "too long": "n" * 300,
    "a loop of links": "loop/x",
    "a loop itself": "loop",
    "with NUL": "a\0b",
    "with escapes": "file/\x1b[2J\x1b]0;title\x07\u202e",
    "not UTF-8": "file/\udcff",
    "with a line feed": "file/x\nError: y",
}
# The place stands for {}; what it names is read or written there.
COMMANDS = {
    "train": "train {} --output out",
    "train to": "train run.yaml --output {}",
    "dry run": "train {} --dry-run",
    "resume": "train --resume --output {}",
    "compare": "compare {} --output out",
    "compare to": "compare --curators grpo,geoalign --seeds 0 --output {}",
    "curate": "curate {} --output out",
    "curate to": "curate dump.jsonl --curator pair_count --output {}",
    "curate by states": "curate dump.jsonl --output out --hidden {}",
    "curate by model": "curate dump.jsonl --output out --model {}",
    "evaluate": "evaluate {} --output out --benchmark aime24=a.jsonl",
    "judge": "judge {} a.jsonl --output out --local",
    "judge against": "judge a.jsonl {} --output out --local",
    "judge to": "judge a.jsonl a.jsonl --output {} --local",
    "report": "report {}",
    "status": "status {}",
}


def arguments(command: str, place: str) -> list[str]:
    return [place if part == "{}" else part for part in command.split()]


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_place_that_cannot_be_is_one_line(here: Path, command: str, place: str) -> None:
    outcome = run(*arguments(command, place))
    assert outcome.broken() == []
    assert outcome.code == 2, outcome
    assert re.fullmatch(r"Error: [^\n]+\n", outcome.err), outcome.err


@pytest.mark.parametrize("place", ["file/x", "/dev/full", "n" * 300, "folder"])
def test_figures_that_cannot_be_written(here: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr("geoalign.lab.bench.command.in_fresh_processes", lambda *_, **__: [])
    outcome = run("bench", "--shape", "2x4x8", "--repeats", "1", "--json", place)
    assert outcome.broken() == []
    assert outcome.code == 2
    assert outcome.err.startswith(f"Error: {place}: ")


def full_disk(path: str):
    """What writing to a full disk raises: the system names no file where it is a write that fails."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    return fail


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    "command",
    ["train run.yaml --output out", "curate dump.jsonl --curator pair_count --output out",
     "judge a.jsonl a.jsonl --output out --local"],
    ids=["train", "curate", "judge"],
)  # fmt: skip
def test_a_full_disk(here: Path, monkeypatch: pytest.MonkeyPatch, command: str, call: str) -> None:
    monkeypatch.setattr(os, call, full_disk(call))
    outcome = run(*command.split())
    assert outcome.broken() == []
    assert outcome.code == 2
    assert "No space left on device" in outcome.err
