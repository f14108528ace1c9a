"""An evaluation that is stopped or killed and resumed comes to the same rows; another one is refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from command_line import call
from evaluating import right_until, rows_of, run

from geoalign.errors import ConfigError
from geoalign.lab.config.rewards import ScoringConfig
from geoalign.lab.generation.engines import TransformersEngine


def test_resuming_after_every_stop(tiny, files, tmp_path, monkeypatch):
    sets = [files[0]], [files[1]]
    values = {"samples": {"aime24": 8, "helpful": 3}, "problems": 2}
    _, said = run([tiny], *sets, tmp_path / "whole", **values)
    assert "first 2 of 3 problems" in said
    expected = rows_of(tmp_path / "whole")
    assert len(expected) == 2 * 8 + 2 * 3
    assert expected[0]["response"] != expected[1]["response"]
    assert {row["set"] for row in expected} == {"aime24", "helpful"}

    generate, calls = TransformersEngine.generate, [0]

    def stopping(self, *arguments, **options):
        calls[0] += 1
        if calls[0] % 2 == 0:
            raise KeyboardInterrupt
        return generate(self, *arguments, **options)

    # Every second batch is broken off; six parts need six stops at most.
    monkeypatch.setattr(TransformersEngine, "generate", stopping)
    stops = 0
    while stops < 10:
        try:
            run([tiny], *sets, tmp_path / "broken", resume=True, **values)
            break
        except KeyboardInterrupt:
            stops += 1
            (tmp_path / "broken" / "rows" / "half.parquet.tmp").write_bytes(b"PAR1")
    assert stops >= 5
    assert rows_of(tmp_path / "broken") == expected
    # Finished: nothing is generated any more, the same numbers come again.
    made = calls[0]
    again, _ = run([tiny], *sets, tmp_path / "broken", resume=True, **values)
    assert calls[0] == made
    whole = json.loads((tmp_path / "whole" / "results.json").read_text())
    assert json.loads((tmp_path / "broken" / "results.json").read_text()) == whole
    assert again.models[0].sets[0].responses == 16


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"temperature": 0.5}, "temperature: expected 1.0, as the evaluation in .*, got 0.5"),
        ({"samples": 2}, "sets.aime24.samples: expected 1, as"),
        ({"system_prompt": None}, "sets.aime24.digest: expected"),
        ({"chat_template_kwargs": {"x": 1}}, "models.tiny.chat_template_kwargs.x: expected nothing"),
        ({"reward": ScoringConfig(timeout=1.0)}, "reward.timeout: expected 5.0"),
    ],
)
def test_other_settings_are_refused_by_key(tiny, files, tmp_path, scripted, values, said):
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out", samples=1)
    with pytest.raises(ConfigError, match=said):
        run([tiny], [files[0]], [], tmp_path / "out", resume=True, **{"samples": 1, **values})


def test_another_model_or_set_is_refused(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out")
    with pytest.raises(ConfigError, match=r"sets\.helpful\.digest: expected nothing"):
        run([tiny], [files[0]], [files[1]], tmp_path / "out", resume=True)
    other = tmp_path / "tiny"
    shutil.copytree(tiny, other)
    # A copy is the same model, wherever it lies.
    run([other], [files[0]], [], tmp_path / "out", resume=True)
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-3] ^= 1
    (other / "model.safetensors").write_bytes(weights)
    with pytest.raises(ConfigError, match=r"models\.tiny\.fingerprint: expected"):
        run([other], [files[0]], [], tmp_path / "out", resume=True)


@pytest.mark.slow
def test_killed_it_comes_to_the_same_rows(tiny, files, tmp_path):
    command = [
        sys.executable, "-m", "geoalign", "evaluate", str(tiny), "--benchmark", files[0], "--set", "device=cpu",
        "--set", "batch_size=2", "--set", "dtype=float32", "--max-new-tokens", "150", "--output",
    ]  # fmt: skip
    values = {"batch_size": 2, "max_new_tokens": 150, "dtype": "float32"}
    run([tiny], [files[0]], [], tmp_path / "whole", **values)
    process = subprocess.Popen(
        [*command, tmp_path / "killed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
    )
    until = time.monotonic() + 120
    while not list((tmp_path / "killed").rglob("part-00003.parquet")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 4 <= len(list((tmp_path / "killed").rglob("*.parquet"))) < 12
    run([tiny], [files[0]], [], tmp_path / "killed", resume=True, **values)
    assert rows_of(tmp_path / "killed") == rows_of(tmp_path / "whole")


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
