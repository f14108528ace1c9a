"""Files and folders that cannot be read or written: one line that names them, whatever the command."""

import json
import os
import re
from itertools import cycle
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
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(TINY))
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "folder").mkdir()
    rows = [{"prompt": "2+2", "response": str(n), "reward": float(n % 2)} for n in range(8)]
    (tmp_path / "dump.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompt = [{"role": "user", "content": "hi"}]
    row = {"set": "s", "id": "1", "sample": 0, "prompt": prompt, "response": "ho", "truncated": False}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


# Root may read and write everything: these no one may.
PLACES = {
    "below a file": "file/x",
    "too long": "n" * 300,
    "with escapes": "file/\x1b[2J\x1b]0;title\x07\u202e",
    "not UTF-8": "file/\udcff",
    "with a line feed": "file/x\nError: y",
}
# The place stands for {}; what it names is read or written there.
COMMANDS = {
    "train": "train {} --output out",
    "train to": "train run.yaml --output {}",
    "resume": "train --resume --output {}",
    "compare": "compare {} --output out",
    "compare to": "compare --curators grpo,geoalign --seeds 0 --output {}",
    "audit": "audit {} --output out",
    "audit to": "audit dump.jsonl --curator pair_count --output {}",
    "audit by states": "audit dump.jsonl --output out --hidden {}",
    "audit by model": "audit dump.jsonl --output out --model {}",
    "evaluate": "evaluate {} --output out --benchmark aime24=a.jsonl",
    "judge": "judge {} a.jsonl --output out --local",
    "judge to": "judge a.jsonl a.jsonl --output {} --local",
    "report": "report {}",
    "status": "status {}",
}

# Every command meets one kind of place, and one command meets all.
PAIRS = [*zip(COMMANDS, cycle(PLACES), strict=False), *(("audit", place) for place in PLACES)]


@pytest.mark.parametrize(("command", "place"), dict.fromkeys(PAIRS))
def test_a_place_that_cannot_be_is_one_line(here: Path, command: str, place: str) -> None:
    outcome = run(*(PLACES[place] if part == "{}" else part for part in COMMANDS[command].split()))
    assert outcome.broken() == []
    assert outcome.code == 2, outcome
    assert re.fullmatch(r"Error: [^\n]+\n", outcome.err), outcome.err


@pytest.mark.parametrize(
    ("command", "call"),
    [("train run.yaml --output out", "fsync"), ("audit dump.jsonl --curator pair_count --output out", "replace")],
)
def test_a_full_disk(here: Path, monkeypatch: pytest.MonkeyPatch, command: str, call: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")  # the system names no file where it is a write that fails

    monkeypatch.setattr(os, call, fail)
    outcome = run(*command.split())
    assert outcome.broken() == []
    assert outcome.code == 2
    assert "No space left on device" in outcome.err
