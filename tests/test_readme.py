"""What the README shows is what runs: its commands and the output of the audit."""

import re
import sys
from pathlib import Path

from typer.testing import CliRunner

from geoalign.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = "recipes/rollouts/substring_reward.jsonl"


def block_after(mark, language=""):
    """The first fenced block of a language after a mark."""
    return re.search(rf"```{language}\n(.*?)```", README.split(mark, 1)[1], re.DOTALL)[1]


def test_the_two_commands_exist():
    targets = re.findall(r"^make (\S+)", block_after("## Install"), re.MULTILINE)
    assert targets == ["quickstart", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_audit_prints_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    # The command that an audit proposes next is the one that was typed.
    monkeypatch.setattr(sys, "argv", ["geoalign", "audit", EXAMPLE])
    folder = tmp_path / EXAMPLE
    folder.parent.mkdir(parents=True)
    folder.write_bytes((ROOT / EXAMPLE).read_bytes())
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["audit", EXAMPLE])
    assert result.exit_code == 0, result.output
    shown = block_after("## Audit", "text").rstrip()
    assert result.output.partition("\n\n")[2].startswith(shown)
    page = (ROOT / "docs" / "audit_in_a_minute.md").read_text(encoding="utf-8")
    assert re.search(r"```text\n(.*?)```", page, re.DOTALL)[1] == result.output
