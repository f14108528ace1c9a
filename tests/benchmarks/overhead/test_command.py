"""The whole benchmark with a tiny model on the CPU: its table, its goals, its file; generation by a stand-in."""

import io
import json
import re
import runpy
import shlex
import sys
import types
from pathlib import Path

import pytest
import torch
from benchmarks.overhead.command import Overhead, overhead_json, print_overhead
from benchmarks.overhead.curating import Cost, CurationCost, Options
from rich.console import Console

from benchmarks.overhead import command
from benchmarks.overhead import step as generation
from geoalign.errors import ConfigError

ROOT = Path(__file__).parents[3]
SMALL = ["--groups", "4", "--size", "4", "--prompt", "4", "--response", "4", "--repeats", "1", "--device", "cpu"]


def test_the_script_measures_and_writes(tmp_path, monkeypatch, capsys):
    file = tmp_path / "overhead.json"
    monkeypatch.setattr(
        sys, "argv", ["benchmarks.overhead", "--architecture", "tiny", *SMALL, "--rows", "8", "--json", str(file)]
    )
    runpy.run_module("benchmarks.overhead", run_name="__main__")
    said = capsys.readouterr().out
    for text in ("not measured", "Generation was not measured (it needs a GPU)", "8 of 16 rollouts", "Written to"):
        assert text in said
    record = json.loads(file.read_text())
    assert (record["schema_version"], record["options"]["seed"], record["options"]["rows"]) == (1, 0, 8)
    assert record["architecture"]["hidden_size"] == 64
    assert {"torch", "trl", "transformers"} <= set(record["versions"])
    assert record["passes"]["update"]["scale"] == 2
    assert record["passes"]["update"]["megabytes"] is None
    found = [(one["device"], one["curator"], one["setting"], one["early_stop"]) for one in record["curation"]]
    settings = [("cpu", "geoalign", setting, stop) for setting in ("paper", "default") for stop in (True, False)]
    assert found == [*settings, ("cpu", "denoise", "default", False)]
    denoise = record["curation"][-1]
    assert (denoise["stages"], denoise["pairs"]) == ({}, None)
    assert 0 < denoise["share"] < 1
    assert "curation: cpu, denoise" in said
    assert 0 < record["shares"]["curation"] < 1


def test_the_page_names_options_that_exist():
    page = (ROOT / "benchmarks" / "performance.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python -m benchmarks.overhead (.*)$", page, re.MULTILINE)
    texts = [text for text in re.findall(r"`(--[^`]*)`", page) if "N" not in text.split()]
    assert len(commands) == 2
    assert len(texts) >= 6
    for text in [*commands, *texts]:
        words = shlex.split(text)
        command.options_of([*words, "8"] if words in (["--prompt"], ["--response"], ["--split"]) else words)
    with pytest.raises(SystemExit):
        command.options_of(["--no-such-option"])


def test_curation_alone():
    console = Console(file=io.StringIO(), width=120)
    found = command.overhead(Options(architecture="tiny", groups=4, size=4, repeats=1, policy=False), console)
    assert found.passes == {}
    assert "share of the step: not measured (--no-policy)" in console.file.getvalue()
    assert overhead_json(found)["shares"]["curation"] is None


def made(curation_seconds, megabytes, *, generation_seconds=None):
    passes = {
        "log-probability pass": Cost((1.0,)),
        "update": Cost((6.0,)),
        "optimizer": Cost((0.5,)),
        "hidden pass": Cost((0.45,), 120.0),
        "tap": Cost((0.01,), 1.0),
    }
    if generation_seconds is not None:
        passes["generation"] = Cost((generation_seconds,))
    curation = [
        CurationCost("paper", stop, "cpu", Cost((seconds,), megabytes), {"pairs": 0.01}, 10, 50, 2)
        for stop, seconds in ((True, curation_seconds), (False, 9.0))
    ]
    return Overhead(Options(split=8), passes, curation, None if generation_seconds else "it needs a GPU")


def said(found):
    console = Console(file=io.StringIO(), width=120)
    print_overhead(console, found)
    return " ".join(console.file.getvalue().split())


def test_shares_by_hand():
    # 1 + 6 + 0.5 without a curator; 0.45 for the states and 0.05 for the curation make 8 seconds.
    found = made(0.05, 250.0)
    assert found.rest == pytest.approx(7.5)
    assert found.share(0.05) == pytest.approx(0.05 / 8)
    # On 8 devices the passes take an eighth, the curation does not.
    assert found.share(0.05, devices=8) == pytest.approx(0.05 / (7.95 / 8 + 0.05))
    # Another curation is a part of the step that it is in.
    assert found.share(9.0, found.curation[1]) == pytest.approx(9 / 16.95)
    assert made(0.05, 250.0, generation_seconds=8.0).share(0.05) == pytest.approx(0.05 / 16)


def test_goals_are_judged():
    good = said(made(0.05, 250.0))
    assert "time: 50.0 ms, within 100 ms, within the stretch of 50 ms" in good
    assert "memory: 250 MB, within 300 MB" in good
    assert "share of the step: 0.62%, within 1%" in good
    assert "all shares are upper bounds" in good
    bad = said(made(0.12, 301.0, generation_seconds=1.0))
    assert "time: 120.0 ms, not within 100 ms, not within the stretch of 50 ms" in bad
    assert "memory: 301 MB, not within 300 MB" in bad
    assert "share of the step: 1.32%, not within 1%" in bad
    assert "upper bounds" not in bad


def test_a_device_that_is_not_there(monkeypatch):
    with pytest.raises(ConfigError, match="device: expected cpu or cuda"):
        Options(device="cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="device: expected one that torch can use here, got 'cuda'"):
        command.overhead(Options(device="cuda"), Console(file=io.StringIO()))


def test_why_generation_is_left_out(monkeypatch):
    assert generation.why_not_measured(Options(device="cpu")) == "it needs a GPU"
    assert generation.why_not_measured(Options(device="cuda", generation=False)) == "not asked for"
    monkeypatch.setattr(generation, "find_spec", lambda name: None)
    assert generation.why_not_measured(Options(device="cuda")) == "vLLM is not installed"
    monkeypatch.setattr(generation, "find_spec", lambda name: object())
    assert generation.why_not_measured(Options(device="cuda")) is None


def test_generation_asks_vllm_for_every_rollout(monkeypatch):
    asked, engines = [], []

    class LLM:
        def __init__(self, **keywords):
            config = json.loads((Path(keywords["model"]) / "config.json").read_text())
            assert config["architectures"] == ["Qwen3ForCausalLM"]
            engines.append(keywords)

        def generate(self, prompts, params, *, use_tqdm):
            asked.append((prompts, params))

    stand_in = types.SimpleNamespace(LLM=LLM, SamplingParams=lambda **keywords: keywords)
    monkeypatch.setitem(sys.modules, "vllm", stand_in)
    assert generation.generate(Options(architecture="tiny", groups=3, size=4, prompt=5, response=7)) > 0
    assert engines[0]["load_format"] == "dummy"
    assert engines[0]["max_model_len"] == 12
    (_, warm), (prompts, params) = asked
    assert warm["max_tokens"] == 1
    assert [len(one["prompt_token_ids"]) for one in prompts] == [5, 5, 5]
    assert (params["n"], params["max_tokens"], params["ignore_eos"]) == (4, 7, True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_memory_is_measured():
    options = Options(
        architecture="tiny", groups=8, size=4, repeats=2, prompt=8, response=8, device="cuda", generation=False
    )
    found = command.overhead(options, Console(file=io.StringIO()))
    assert found.passes["update"].megabytes > 0
    assert [one.device for one in found.curation] == ["cuda"] * 5 + ["cpu"] * 5
    assert all((one.cost.megabytes > 0) == (one.device == "cuda") for one in found.curation)
