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

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.models.engines import TransformersEngine
from geoalign.lab.rewards.settings import ScoringConfig
from geoalign.pretrained import fastest_dtype


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
    problems.write_text(problems.read_text().replace('"answer": "3"', '"answer": "4"'))
    with pytest.raises(
        ConfigError, match=r"sets\.aime24\.digest: expected .*the problems, their answers or their order"
    ):
        run([tiny], [files[0]], [], tmp_path / "out", resume=True)


def responses_of(output):
    """The rows of a folder by what they are known by: model, set, id, sample."""
    rows = rows_of(output)
    by_key = {(row["model"], row["set"], row["id"], row["sample"]): row for row in rows}
    assert len(by_key) == len(rows)
    return by_key


def results_of(output):
    written = json.loads((output / "results.json").read_text())
    written["settings"].pop("batch_size")
    return written


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
    kept = results_of(tmp_path / "out")["models"]["tiny"]["sets"]["aime24"]
    direct = results_of(tmp_path / "few")["models"]["tiny"]["sets"]["aime24"]
    assert {name: value for name, value in kept.items() if name != "counts"} == {
        name: value for name, value in direct.items() if name != "counts"
    }


def test_models_are_added_whatever_order_they_are_named_in(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    folders = []
    for number, name in enumerate("ab"):
        folder = tmp_path / name / "model"
        shutil.copytree(tiny, folder)
        (folder / "generation_config.json").write_text(json.dumps({"max_length": 100 + number}))
        folders.append(folder)
    run(folders[:1], [files[0]], [], tmp_path / "out")
    before = responses_of(tmp_path / "out")
    found, _ = run(folders[::-1], [files[0]], [], tmp_path / "out", resume=True)
    # The one that was there keeps its name, though it comes second.
    assert [(one.model.name, one.model.path) for one in found.models] == [
        ("model-2", str(folders[1])), ("model", str(folders[0])),
    ]  # fmt: skip
    after = responses_of(tmp_path / "out")
    assert {key: after[key] for key in before} == before
    assert len(after) == 2 * len(before)
    _, said = run(folders[:1], [files[0]], [], tmp_path / "out", resume=True)
    assert "Not in these results: model model-2, of an earlier command" in said


def test_a_set_that_differs_from_an_earlier_one_by_case_alone_is_refused(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    problems = files[0].partition("=")[2]
    run([tiny], [f"mine={problems}"], [], tmp_path / "out")
    with pytest.raises(ConfigError, match=r"Mine: .* has a set mine"):
        run([tiny], [f"Mine={problems}"], [], tmp_path / "out", resume=True)


def test_what_this_cpu_is_faster_in_today_does_not_end_an_evaluation(tiny, files, tmp_path, scripted, monkeypatch):
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out")
    monkeypatch.setattr(fastest_dtype, "cpu_flags", lambda: {"amx_bf16"})
    run([tiny], [files[0]], [], tmp_path / "out", resume=True)
    assert results_of(tmp_path / "out")["settings"]["dtype"] == "float32"


def test_a_part_that_cannot_be_read_is_named(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out", samples=2)
    expected = responses_of(tmp_path / "out")
    (first, *_) = sorted((tmp_path / "out" / "rows").rglob("*.parquet"))
    first.write_bytes(first.read_bytes()[:-20])
    with pytest.raises(RunFolderError, match=r"part-00000\.parquet: expected rows .*; delete this file, and --resume"):
        run([tiny], [files[0]], [], tmp_path / "out", samples=2, resume=True)
    first.unlink()
    run([tiny], [files[0]], [], tmp_path / "out", samples=2, resume=True)
    assert responses_of(tmp_path / "out") == expected


def test_an_evaluation_of_an_earlier_version_is_refused(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "settings.json").write_text(json.dumps({"schema_version": 1, "batch_size": 5}))
    with pytest.raises(RunFolderError, match="schema_version 1: its rows cannot be gone on with"):
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
    while not list((tmp_path / "killed").rglob("part-00003.parquet")) and time.monotonic() < until:
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
