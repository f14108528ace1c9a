import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import call
from typer.testing import CliRunner

from geoalign import cli
from geoalign.console.command_line import add_command, argument, help_text, option
from geoalign.lab.compare.command import COMPARE_EXAMPLE
from geoalign.lab.compare.read_settings import load_compare_config
from geoalign.lab.train.command import TRAIN_EXAMPLE
from geoalign.lab.train.read_settings import load_run_config


@dataclass(frozen=True)
class Request:
    files: Sequence[Path] = argument("Files.", "FILE...")
    overrides: Sequence[str] = option("A setting.", (), "a=b", option="set")
    dry_run: bool = option("Nothing.", False)
    limit: int | None = option("At most.", None, "ROWS", min=1, max=8)
    called: str = "no option"


@pytest.fixture
def called() -> tuple[typer.Typer, list[Any]]:
    app, calls = typer.Typer(), []

    def work(request: Request) -> None:
        """Works."""
        calls.append(request)

    add_command(app, "work", Request, work)
    app.command("other")(lambda: None)
    return app, calls


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("work a b", Request([Path("a"), Path("b")])),
        ("work a --set x=1 --set y=2 --dry-run --limit 3", Request([Path("a")], ["x=1", "y=2"], dry_run=True, limit=3)),
    ],
)
def test_what_is_not_given_has_the_default_of_the_request(called, words, expected):
    app, calls = called
    assert CliRunner().invoke(app, words.split(), catch_exceptions=False).exit_code == 0
    assert calls == [expected]


@pytest.mark.parametrize("words", ["work", "work a --limit 0", "work a --limit 9", "work a --called x"])
def test_limits_and_names_are_those_of_the_class(called, words):
    app, calls = called
    assert CliRunner().invoke(app, words.split()).exit_code == 2
    assert not calls


def test_the_help_is_that_of_the_fields(called):
    text = CliRunner().invoke(called[0], ["work", "--help"], env={"COLUMNS": "150"}).output
    for words in ("Works.", "At most.", "1<=x<=8", "ROWS"):
        assert words in text, words


COMMANDS = sorted(typer.main.get_command(cli.app).commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_and_names_no_types(name):
    text = CliRunner().invoke(cli.app, [name, "--help"], env={"COLUMNS": "80"}).output
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<\w+( range)?>|list\[|\[\[|[{}]", text)


def test_a_docstring_becomes_paragraphs_and_examples():
    docstring = """One
    paragraph.

    Another
    one.

      geoalign x \\
          --y
      geoalign z
    """
    assert help_text(docstring) == "One paragraph.\n\nAnother one.\n\n\b\n  geoalign x \\\n      --y\n  geoalign z"


def test_usage_says_what_has_to_be_given():
    usages = {name: CliRunner().invoke(cli.app, [name, "--help"]).output.splitlines()[0] for name in COMMANDS}
    assert usages["train"] == "Usage: geoalign train [OPTIONS] [CONFIG.yaml]"
    assert usages["evaluate"] == "Usage: geoalign evaluate [OPTIONS] MODEL..."
    assert usages["judge"] == "Usage: geoalign judge [OPTIONS] A B"


def yaml_of(example):
    """The settings in an example: its indented lines."""
    return "\n".join(line[2:] for line in example.splitlines() if line.startswith("  "))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train"], "Nothing was trained"),
        (["train", "--output", "x"], "Nothing was trained"),
        (["compare"], "Nothing was compared"),
        (["compare", "--output", "x", "--workers", "2"], "Nothing was compared"),
    ],
)
def test_a_bare_command_shows_its_help_and_does_nothing(monkeypatch, tmp_path, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *words) == 2
    text = capsys.readouterr().out
    assert f"Usage: geoalign {words[0]} [OPTIONS] [CONFIG.yaml]" in text
    assert said in text
    assert not list(tmp_path.iterdir())


def test_the_examples_of_a_bare_command_are_settings(tmp_path):
    for name in ("problems", "held_out"):
        (tmp_path / f"{name}.jsonl").write_text('{"problem": "1+1?", "answer": "2"}\n')
    (tmp_path / "run.yaml").write_text(yaml_of(TRAIN_EXAMPLE))
    (tmp_path / "compare.yaml").write_text(yaml_of(COMPARE_EXAMPLE))
    assert load_run_config(tmp_path / "run.yaml").config.curator.type == "denoise"
    assert list(load_compare_config(tmp_path / "compare.yaml").config.arms) == ["grpo", "denoise", "clean"]


def test_every_option_of_every_command_has_a_help():
    commands = typer.main.get_command(cli.app).commands
    assert len(commands) == 7
    missing = [(name, option.name) for name, made in commands.items() for option in made.params if not option.help]
    assert not missing
