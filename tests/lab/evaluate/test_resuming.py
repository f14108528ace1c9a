"""An evaluation that is stopped or killed and resumed, or that grows, comes to the same rows; another is refused."""

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

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.evaluate import evaluated_models
from geoalign.lab.models.engines import TransformersEngine
from geoalign.lab.rewards.settings import ScoringConfig


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
    calls_before = calls[0]
    again, _ = run([tiny], *sets, tmp_path / "broken", resume=True, **values)
    assert calls[0] == calls_before
    whole = json.loads((tmp_path / "whole" / "results.json").read_text())
    assert json.loads((tmp_path / "broken" / "results.json").read_text()) == whole
    assert again.models[0].sets[0].responses == 16


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"temperature": 0.5}, "temperature: expected 1.0, as the evaluation in .*, got 0.5"),
        ({"system_prompt": None}, r"sets\.aime24\.system_prompt: expected 'Please reason.*, got None"),
        ({"max_new_tokens": 9}, r"sets\.aime24\.max_new_tokens: expected 8, as"),
        ({"seed": 1}, "seed: expected 0, as"),
        ({"dtype": "bfloat16"}, "dtype: expected 'float32', as"),
        ({"chat_template_kwargs": {"x": 1}}, "models.tiny.chat_template_kwargs.x: expected nothing"),
        ({"reward": ScoringConfig(timeout=1.0)}, "reward.timeout: expected 5.0"),
    ],
)
def test_other_settings_are_refused_by_key(tiny, files, tmp_path, scripted, values, said):
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out", samples=1)
    with pytest.raises(ConfigError, match=said):
        run([tiny], [files[0]], [], tmp_path / "out", resume=True, **{"samples": 1, **values})


def test_other_weights_and_other_problems_are_refused(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out")
    other = tmp_path / "tiny"
    shutil.copytree(tiny, other)
    # A copy is the same model, wherever it lies.
    run([other], [files[0]], [], tmp_path / "out", resume=True)
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-3] ^= 1
    (other / "model.safetensors").write_bytes(weights)
    with pytest.raises(ConfigError, match=r"models\.tiny\.fingerprint: expected .*weights, tokenizer"):
        run([other], [files[0]], [], tmp_path / "out", resume=True)
    problems = tmp_path / "aime.jsonl"
    text = problems.read_text()
    problems.write_text(text.replace('"answer": "3"', '"answer": "4"'))
    settings = (tmp_path / "out" / "settings.json").read_bytes()
    with pytest.raises(ConfigError, match=r"aime24: line 3 has another prompt or answer than the rows in .*out"):
        # Whatever model is asked: its rows would not be about the same problems.
        run([f"new={tiny}"], [files[0]], [], tmp_path / "out", resume=True)
    assert (tmp_path / "out" / "settings.json").read_bytes() == settings


def test_a_file_may_get_further_problems(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out", samples=1)
    with (tmp_path / "aime.jsonl").open("a") as file:
        file.write(json.dumps({"problem": "What is 3+1?", "answer": "4"}) + "\n")
    found, _ = run([tiny], [files[0]], [], tmp_path / "out", samples=1, resume=True)
    assert found.models[0].sets[0].responses == 4


def responses_of(output):
    """The rows of a folder by what they are known by: model, set, id, sample."""
    rows = rows_of(output)
    by_key = {(row["model"], row["set"], row["id"], row["sample"]): row for row in rows}
    assert len(by_key) == len(rows)
    return by_key


def results_of(output):
    return json.loads((output / "results.json").read_text())


@pytest.fixture
def counted(monkeypatch):
    """Counts the responses that the loaded model generates."""
    generate = TransformersEngine.generate
    made = [0]

    def counting(self, prompts, seeds, **options):
        made[0] += len(prompts)
        return generate(self, prompts, seeds, **options)

    monkeypatch.setattr(TransformersEngine, "generate", counting)
    return made


def test_it_grows_by_samples_problems_and_sets_with_any_batch_size(tiny, files, tmp_path, counted):
    whole = {"samples": {"aime24": 6, "helpful": 2}, "batch_size": 5}
    run([tiny], [files[0]], [files[1]], tmp_path / "whole", **whole)
    steps = [
        ([], {"samples": 2, "problems": 1, "batch_size": 3}, 2),
        # A smaller batch, as after an out-of-memory error; nothing is missing.
        ([], {"samples": 2, "problems": 1, "batch_size": 1}, 0),
        ([], {"samples": 4, "problems": 2, "batch_size": 4}, 6),
        # 3 x 6 less the 8 that are there, and 2 x 2 of the set that is added.
        ([files[1]], {"samples": {"aime24": 6, "helpful": 2}, "batch_size": 7}, 14),
    ]
    for dialogues, values, expected in steps:
        counted[0] = 0
        run([tiny], [files[0]], dialogues, tmp_path / "grown", resume=True, **values)
        assert counted[0] == expected
    assert responses_of(tmp_path / "grown") == responses_of(tmp_path / "whole")
    assert results_of(tmp_path / "grown") == results_of(tmp_path / "whole")


def test_fewer_samples_are_the_first_of_those_that_are_there(tiny, files, tmp_path, counted):
    run([tiny], [files[0]], [], tmp_path / "out", samples=4)
    run([tiny], [files[0]], [], tmp_path / "few", samples=2)
    counted[0] = 0
    again, _ = run([tiny], [files[0]], [], tmp_path / "out", samples=2, resume=True)
    assert counted[0] == 0
    assert again.models[0].sets[0].responses == 6
    # All numbers are those of the rows that were asked for.
    assert results_of(tmp_path / "out")["models"] == results_of(tmp_path / "few")["models"]


def test_a_model_is_added_and_the_rows_of_the_other_stay(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    run([f"one={tiny}"], [files[0]], [], tmp_path / "out", samples=1)
    before = responses_of(tmp_path / "out")
    _, said = run([f"two={tiny}"], [files[0]], [], tmp_path / "out", samples=1, resume=True)
    assert "the rows of one, which an earlier command named" in " ".join(said.split())
    found, said = run([f"two={tiny}", f"one={tiny}"], [files[0]], [], tmp_path / "out", samples=1, resume=True)
    assert [one.model.name for one in found.models] == ["two", "one"]
    assert "earlier command" not in said
    after = responses_of(tmp_path / "out")
    assert {key: after[key] for key in before} == before
    assert len(after) == 2 * len(before)


def test_the_type_of_the_weights_stays_where_another_machine_would_take_another(
    tiny, files, tmp_path, scripted, monkeypatch
):
    scripted(lambda prompt, sample: "")
    monkeypatch.setattr(evaluated_models, "fastest_dtype", lambda device: "float32")
    run([tiny], [files[0]], [], tmp_path / "out")
    monkeypatch.setattr(evaluated_models, "fastest_dtype", lambda device: "bfloat16")
    run([tiny], [files[0]], [], tmp_path / "out", resume=True)
    assert results_of(tmp_path / "out")["settings"]["dtype"] == "float32"


def test_a_part_that_cannot_be_read_is_named(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out", samples=2)
    expected = responses_of(tmp_path / "out")
    (first, *_) = sorted((tmp_path / "out" / "rows").rglob("*.parquet"))
    first.write_bytes(first.read_bytes()[:-20])
    with pytest.raises(RunFolderError, match=r"part-000000\.parquet: expected rows .*; delete this file, and --resume"):
        run([tiny], [files[0]], [], tmp_path / "out", samples=2, resume=True)
    first.unlink()
    run([tiny], [files[0]], [], tmp_path / "out", samples=2, resume=True)
    assert responses_of(tmp_path / "out") == expected


def test_an_evaluation_of_an_earlier_version_is_refused(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "settings.json").write_text(json.dumps({"schema_version": 1, "batch_size": 5}))
    with pytest.raises(RunFolderError, match=r"made by another version of geoalign .*take another --output"):
        run([tiny], [files[0]], [], tmp_path / "out", resume=True)


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
    while not list((tmp_path / "killed").rglob("part-000003.parquet")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 4 <= len(list((tmp_path / "killed").rglob("*.parquet"))) < 12
    run([tiny], [files[0]], [], tmp_path / "killed", resume=True, **{**values, "batch_size": 3})
    assert responses_of(tmp_path / "killed") == responses_of(tmp_path / "whole")


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
