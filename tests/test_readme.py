"""What the README shows is what happens."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import typer

from geoalign.lab.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.split(r"^## ", README.split(f"## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_library_example_finds_the_wrong_rewards():
    code = re.search(r"```python\n(.*?)```", section("As a library"), re.DOTALL).group(1)
    assert len(code.strip().splitlines()) <= 25
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wrong, flagged = (set(re.findall(r"\d+", line)) for line in result.stdout.splitlines()[:2])
    assert len(wrong) == 3
    assert wrong <= flagged


def test_the_two_commands_come_first_and_exist():
    first = re.search(r"```\n(.*?)```", README, re.DOTALL).group(1)
    targets = re.findall(r"^make (\S+)", first, re.MULTILINE)
    assert targets == ["quickstart", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in {*targets, *re.findall(r"`make (\S+)`", README)}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_file_that_is_named_exists():
    for name in re.findall(r"\]\((?!http)([^)#]+)\)|`((?:docs|configs|recipes|src)/[^`*]*?)`", README):
        assert (ROOT / (name[0] or name[1])).exists(), name


def test_every_command_is_one_that_the_command_line_takes():
    commands = [shlex.split(line, comments=True) for line in re.findall(r"^(geoalign .*)$", README, re.MULTILINE)]
    assert {words[1] for words in commands} == {command.name for command in app.registered_commands}
    known = typer.main.get_command(app).commands
    for _, name, *arguments in commands:
        known[name].make_context(name, arguments)  # reads the arguments; a wrong or missing one is an error
