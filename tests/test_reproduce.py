"""docs/reproduce.md and recipes/reproduce.sh: commands and settings exist, scripts run, sums are right."""

import dataclasses
import itertools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from trl import GRPOConfig, SFTConfig

from geoalign.cli import app
from geoalign.lab.data.sources import hub_dataset
from geoalign.lab.evaluate.command import EvaluateRequest
from geoalign.lab.evaluate.settings import load_evaluate_config
from geoalign.lab.judge.settings import load_judge_config
from geoalign.lab.train.read_settings import load_run_config

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
SCRIPT = (ROOT / "recipes" / "reproduce.sh").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
TRL_OPTIONS = {item.name for item in dataclasses.fields(GRPOConfig)}
SFT_OPTIONS = {item.name for item in dataclasses.fields(SFTConfig)}


def shell_lines() -> list[str]:
    """The script's commands, continued lines joined, without comments and the lines of functions."""
    lines = [line.strip() for line in SCRIPT.replace("\\\n", " ").splitlines()]
    start = next(at for at, line in enumerate(lines) if line.startswith("train="))
    return [line for line in lines[start:] if line and not re.match(r"#|\w+\(\) \{|\}$|\"\$@\"$", line)]


def expanded() -> list[list[str]]:
    """Every command as words, once for each turn of the loops around it."""
    loops: list[tuple[str, list[str]]] = []
    variables: dict[str, str] = {}
    found: list[list[str]] = []
    for line in shell_lines():
        if assignment := re.fullmatch(r'(\w+)="(.*)"', line):
            variables[assignment[1]] = assignment[2]
            continue
        line = re.sub(r"\$(\w+)", lambda match: variables.get(match[1], match[0]), line)
        loop = re.fullmatch(r"for (\w+) in (.*); do", line)
        if loop:
            loops.append((loop[1], loop[2].split()))
        elif line == "done":
            loops.pop()
        else:
            for values in itertools.product(*(values for _, values in loops)):
                text = line
                for (name, _), value in zip(loops, values, strict=True):
                    text = re.sub(rf"\$\{{{name}\}}|\${name}\b", value, text)
                assert "$" not in text, text
                found.append(shlex.split(text))
    assert not loops
    return found


ALL = expanded()


def geoalign_arguments(words: list[str]) -> list[str] | None:
    """What comes after `geoalign`, started plainly or by accelerate; None for other programs."""
    if words[0] == "geoalign":
        return words[1:]
    if words[:2] == ["accelerate", "launch"]:
        assert words[2] == "--config_file"
        assert (ROOT / words[3]).is_file()
        assert words[4:6] == ["-m", "geoalign"]
        return words[6:]
    return None


OF_GEOALIGN = list(dict.fromkeys(tuple(found) for words in ALL if (found := geoalign_arguments(words)) is not None))


def parsed(arguments: tuple[str, ...]) -> dict[str, object]:
    command = COMMANDS[arguments[0]]
    with command.make_context(arguments[0], list(arguments[1:])) as context:
        return dict(context.params)


def test_the_script_has_commands_of_every_kind():
    names = {arguments[0] for arguments in OF_GEOALIGN}
    assert names == {"train", "evaluate", "judge"}
    # "Total cost": 104 runs, and the dry runs and smoke runs of four settings.
    assert sum(arguments[0] == "train" for arguments in OF_GEOALIGN) == 104 + 8
    assert {words[0] for words in ALL} == {"geoalign", "accelerate", "python", "make"}
    # The page names every function.
    functions = re.findall(r"^(\w+)\(\) \{", SCRIPT, re.MULTILINE)
    assert [name for name in functions if f"`{name}`" not in PAGE and f"reproduce.sh {name}\n" not in PAGE] == []


@pytest.mark.parametrize("arguments", OF_GEOALIGN, ids=" ".join)
def test_every_command_exists(arguments, monkeypatch):
    monkeypatch.chdir(ROOT)
    given = parsed(arguments)
    if arguments[0] == "train":
        config = load_run_config(given["config"], given["overrides"] or []).config
        assert config.grpo.keys() <= TRL_OPTIONS
        assert (config.sft or {}).keys() <= SFT_OPTIONS
    elif arguments[0] == "evaluate":
        load_evaluate_config(EvaluateRequest(**{name: value for name, value in given.items() if value is not None}))
        sets = [*(given["benchmarks"] or []), *(given["dialogues"] or [])]
        locations = [text.partition("=")[2] for text in sets]
        assert locations
        assert None not in map(hub_dataset, locations)
    elif arguments[0] == "judge":
        assert load_judge_config(given["base_url"], given["model"], given["overrides"] or []) is not None


@pytest.mark.parametrize("override", sorted(set(re.findall(r"`--set ([^`\s]+)`", PAGE))))
def test_every_setting_in_the_text_exists(override):
    if override == "task.train=FILE":
        override = "task.train=file.jsonl"
    for setting in ("math_1.7b", "hh_1.7b"):
        config = load_run_config(ROOT / "configs" / "full" / setting / "geoalign.yaml", [override]).config
        assert config.grpo.keys() <= TRL_OPTIONS


def run_script(name: str, folder: Path) -> str:
    command = [sys.executable, str(ROOT / "recipes" / name), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_final_score_is_the_mean_of_the_last_five(tmp_path):
    def line(stage: str, step: int, name: str, accuracy: float) -> str:
        return json.dumps({"stage": stage, "step": step, "set": name, "accuracy": accuracy, "reward": accuracy})

    lines = [line("before_rl", 0, "a", 0.1), line("before_rl", 0, "b", 0.2)]
    for number in range(1, 8):
        lines += [line("rl", 10 * number, "a", number / 10), line("rl", 10 * number, "b", 0.5)]
    lines.append(line("after_rl", 75, "a", 0.9))
    (tmp_path / "evaluation.jsonl").write_text("\n".join(lines) + "\n")
    said = run_script("final.py", tmp_path)
    assert "before RL mean 0.1500 {'a': 0.1, 'b': 0.2}" in said
    # Steps 30 to 70: 0.3, 0.4, 0.5, 0.6, 0.7.
    assert "last five mean 0.5000 {'a': 0.5, 'b': 0.5}" in said


def test_the_values_of_the_updates(tmp_path):
    lines = [
        {"stage": "rl", "step": 1, "geoalign/seconds": 4.0, "ppo_kl": 0.0},
        {"stage": "rl", "step": 2, "ppo_kl": 0.5},
        {"stage": "sft", "step": 1, "ppo_kl": 9.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    said = " ".join(run_script("updates.py", tmp_path).split())
    assert "geoalign/seconds 4.00 4.00" in said
    assert "ppo_kl 0.25 0.25" in said


def test_the_total_cost_is_that_of_the_commands():
    """Runs by setting, as the commands make them, times the paper's hours a run, times 8 GPUs."""
    hours = {"math_1.7b": (20, 22), "math_4b": (36, 40), "hh_1.7b": (12, 13), "hh_4b": (16, 17)}
    for low, high in hours.values():
        assert f"| {low}-{high} |" in PAGE
    runs, totals = 0, [0, 0]
    for arguments in OF_GEOALIGN:
        if arguments[0] != "train" or {"--dry-run", "--smoke"} & set(arguments):
            continue
        setting = Path(arguments[1]).parent.name
        # 100 of 181 updates; dialogue's 100 of 358 are counted as whole runs, at most.
        shorter = "grpo.max_steps=100" in arguments and setting == "math_1.7b"
        runs += 1
        totals = [total + 8 * each for total, each in zip(totals, (11, 12) if shorter else hours[setting], strict=True)]
    assert f"{runs} runs, {totals[0]:,} to {totals[1]:,} GPU hours" in PAGE
