"""The command line of `geoalign evaluate`."""

from pathlib import Path
from typing import Any

import pytest
from command_line import call
from evaluating import right_until


def test_the_command_line(
    tiny: Path,
    files: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scripted: Any,
) -> None:
    scripted(right_until({"0": 1, "1": 1, "2": 1}))
    common = ("evaluate", tiny, "--benchmark", files[0], "--output", tmp_path / "out", "--max-new-tokens", "8")
    more = ("--samples", "aime24=2", "--set", "device=cpu")
    assert call(monkeypatch, *common, *more) == 0
    assert "aime24 avg@2" in capsys.readouterr().out
    assert call(monkeypatch, *common, *more) == 2
    assert "add --resume" in capsys.readouterr().err
    assert call(monkeypatch, *common, *more, "--resume") == 0
    assert call(monkeypatch, *common, *more, "--resume", "--greedy") == 2
    assert "samples: expected 1 with temperature=0" in capsys.readouterr().err
    assert call(monkeypatch, *common, "--greedy", "--temperature", "1") == 2
    assert "--greedy: expected without --temperature" in capsys.readouterr().err
    assert call(monkeypatch, *common, "--pass-at-k", "--samples", "x") == 2


def test_stopped_by_hand_it_says_how_to_go_on(
    tiny: Path,
    files: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scripted: Any,
) -> None:
    def stop(prompt: str, sample: int) -> str:
        raise KeyboardInterrupt

    scripted(stop)
    where = ("--benchmark", files[0], "--output", tmp_path / "o")
    command = ("evaluate", tiny, *where, "--set", "device=cpu", "--max-new-tokens", "8")
    assert call(monkeypatch, *command) == 130
    said = capsys.readouterr().err
    assert f"Go on with: geoalign evaluate {tiny} --benchmark" in said
    assert said.rstrip().endswith("--resume")
    scripted(lambda prompt, sample: "")
    assert call(monkeypatch, *command, "--resume") == 0
