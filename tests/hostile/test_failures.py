"""Failures that are nobody's input: bugs, no memory, Ctrl-C, closed input and output, wrong use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import run

import geoalign
from geoalign.errors import ConfigError

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(geoalign.__file__).parents[1]), "COLUMNS": "80"}
STATUS = "geoalign.status.status"


def raising(error: BaseException):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException):
    monkeypatch.setattr(STATUS, raising(error))
    return run("status", "somewhere")


def test_a_bug_shows_its_traceback_and_asks_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = failing(monkeypatch, KeyError("a\x1b[2Jb"))
    assert outcome.code == 1
    assert "Traceback (most recent call last)" in outcome.err
    assert "KeyError: 'a\\x1b[2Jb'" in outcome.err
    assert "please report it" in outcome.err.splitlines()[-1]
    assert "\x1b" not in outcome.err


def out_of_memory() -> Exception:
    import torch

    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: tried 9 bytes"), "out of memory: "),
        (out_of_memory(), "out of memory: CUDA out of memory. Tried to allocate 2.00 GiB."),
        (RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0"), "could not be read or"),
        (PermissionError(13, "Permission denied", "/a/b"), "/a/b: Permission denied"),
        (ConfigError("x: expected y, got\n z"), "x: expected y, got z"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_user_and_machine_get_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    outcome = failing(monkeypatch, error)
    assert outcome.broken() == []
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_errors_have_a_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = failing(monkeypatch, OSError("y\n" * 10**6))
    assert outcome.broken() == []
    assert len(outcome.err) < 4000
    assert "characters left out" in outcome.err


def test_ctrl_c_says_what_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = failing(monkeypatch, KeyboardInterrupt())
    assert outcome.code == 130
    assert not outcome.raised
    assert outcome.err.strip().startswith("Stopped")
    assert "Abort" not in outcome.err


def piped(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=ENVIRONMENT)


GEOALIGN = f"{sys.executable} -m geoalign"


def test_a_closed_pipe_is_quiet_and_a_full_disk_is_one_line() -> None:
    # The reader is gone before anything is written.
    assert piped(f"(sleep 0.2; {GEOALIGN} --version) | true").stderr == ""
    done = piped(f"{GEOALIGN} --version > /dev/full")
    assert (done.stderr, done.returncode) == ("Error: No space left on device\n", 2)
