"""The command line of `geoalign evaluate`."""

import pytest
from command_line import call
from evaluating import right_until


@pytest.fixture
def evaluate(tiny, files, tmp_path, monkeypatch):
    """Evaluates the tiny model on the benchmark with these options more; returns the exit code."""
    asked = ("--benchmark", files[0], "--output", tmp_path / "out", "--max-new-tokens", "8", "--set", "device=cpu")
    return lambda *more: call(monkeypatch, "evaluate", tiny, *asked, *more)


def test_the_command_line(evaluate, capsys, scripted):
    scripted(right_until({"0": 1, "1": 1, "2": 1}))
    twice = ("--samples", "aime24=2")
    assert evaluate(*twice) == 0
    assert "aime24 avg@2" in capsys.readouterr().out
    assert evaluate(*twice) == 2
    assert "add --resume" in capsys.readouterr().err
    assert evaluate(*twice, "--resume") == 0
    assert evaluate(*twice, "--resume", "--greedy") == 2
    assert "samples: expected 1 with temperature=0" in capsys.readouterr().err
    assert evaluate("--greedy", "--temperature", "1") == 2
    assert "--greedy: expected without --temperature" in capsys.readouterr().err
    assert evaluate("--pass-at-k", "--samples", "x") == 2


def test_stopped_by_hand_it_says_how_to_go_on(evaluate, tiny, capsys, scripted):
    def stop(prompt, sample):
        raise KeyboardInterrupt

    scripted(stop)
    assert evaluate() == 130
    said = capsys.readouterr().err
    assert f"Go on with: geoalign evaluate {tiny} --benchmark" in said
    assert said.rstrip().endswith("--resume")
    scripted(lambda prompt, sample: "")
    assert evaluate("--resume") == 0
