"""The benchmark of a step with a tiny model on the CPU: its passes, its curation, its table and its goals."""

import io
import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.overhead.command import Overhead, print_overhead
from benchmarks.overhead.curating import Cost, CurationCost, Options
from rich.console import Console

from benchmarks.overhead import command

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


def test_a_part_that_fails_is_named_and_takes_no_other_along(tmp_path, monkeypatch, capsys):
    def fail(*given, **settings):
        raise torch.OutOfMemoryError("so much memory")

    monkeypatch.setattr(command, "curation_cost", fail)
    with pytest.raises(SystemExit, match="1"):
        command.main(["--architecture", "tiny", *SMALL, "--json", str(tmp_path / "overhead.json")])
    record = json.loads((tmp_path / "overhead.json").read_text())
    assert set(record["passes"]) == {"hidden pass", "log-probability pass", "tap", "update", "optimizer"}
    assert len(record["curation"]) == 1
    # Shares are of a whole step.
    assert (record["complete"], record["shares"]["curation"]) == (False, None)
    assert record["failed"][-1].endswith(": so much memory")
    assert "Failed: " in capsys.readouterr().out


def test_beside_a_gpu_the_cpu_is_measured_once(monkeypatch):
    asked = []

    def cost(options, *, device, setting="default", early_stop=False):
        asked.append((device, options.repeats))
        return CurationCost(setting, early_stop, device, Cost((0.1,)), {"pairs": 0.01}, 1, 1, 0)

    for name in ("curation_cost", "denoise_cost", "_check_device", "hardware"):
        monkeypatch.setattr(command, name, cost if name.endswith("cost") else lambda given: {})
    command.overhead(Options(device="cuda", policy=False), Console(file=io.StringIO()))
    assert asked == [("cuda", 3)] * 5 + [("cpu", 1)] * 5


def test_the_page_names_options_that_exist():
    page = (ROOT / "benchmarks" / "performance.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python -m benchmarks.overhead (.*)$", page, re.MULTILINE)
    texts = [text for text in re.findall(r"`(--[^`]*)`", page) if "N" not in text.split()]
    assert len(commands) == 2
    assert len(texts) >= 6
    for text in [*commands, *texts]:
        words = shlex.split(text)
        command.options_of([*words, "8"] if words in (["--prompt"], ["--response"]) else words)
    with pytest.raises(SystemExit):
        command.options_of(["--no-such-option"])


def overhead_of(curation_seconds, megabytes, *, generation_seconds=None):
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
    return Overhead(Options(), passes, curation, None if generation_seconds else "it needs a GPU")


def printed(found):
    console = Console(file=io.StringIO(), width=120)
    print_overhead(console, found)
    return " ".join(console.file.getvalue().split())


def test_shares_by_hand():
    # 1 + 6 + 0.5 without a curator; 0.45 for the states and 0.05 for the curation make 8 seconds.
    found = overhead_of(0.05, 250.0)
    assert found.rest == pytest.approx(7.5)
    assert found.share(0.05) == pytest.approx(0.05 / 8)
    # Another curation is a part of the step that it is in.
    assert found.share(9.0, found.curation[1]) == pytest.approx(9 / 16.95)
    assert overhead_of(0.05, 250.0, generation_seconds=8.0).share(0.05) == pytest.approx(0.05 / 16)


def test_goals_are_judged():
    good = printed(overhead_of(0.05, 250.0))
    assert "time: 50.0 ms, within 100 ms, within the stretch of 50 ms" in good
    assert "memory: 250 MB, within 300 MB" in good
    assert "share of the step: 0.62%, within 1%" in good
    assert "shares are of a step without it" in good
    bad = printed(overhead_of(0.12, 301.0, generation_seconds=1.0))
    assert "time: 120.0 ms, not within 100 ms, not within the stretch of 50 ms" in bad
    assert "memory: 301 MB, not within 300 MB" in bad
    assert "share of the step: 1.32%, not within 1%" in bad
    assert "shares are of" not in bad
