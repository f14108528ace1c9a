from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from geoalign.lab import cli
from geoalign.lab.command_line import command
from geoalign.lab.config.requests import argument, option


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

    @command(app, "work", Request)
    def work(request: Request) -> None:
        """Works."""
        calls.append(request)

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


def test_every_option_of_every_command_has_a_help():
    commands = typer.main.get_command(cli.app).commands
    assert len(commands) == 8
    missing = [(name, option.name) for name, made in commands.items() for option in made.params if not option.help]
    assert not missing
