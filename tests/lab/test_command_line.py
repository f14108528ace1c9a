"""Commands made from settings classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from geoalign.lab import cli
from geoalign.lab.command_line import command
from geoalign.lab.config.requests import argument, option
from geoalign.settings import setting, settings


@settings
class Model:
    batch_size: Annotated[int, Field(ge=1, le=8)] = setting(default=4, help="Rows at a time.")
    dtype: Literal["float32", "bfloat16"] = setting(default="float32", help="Type.")
    revision: str | None = setting(default=None, help="Branch; null: the main one.", metavar="REF")
    path: str = setting(help="The model.")
    hidden: int = setting(default=0, help="No option.")


@dataclass(frozen=True)
class Request:
    files: Sequence[Path] = argument("Files.", "FILE...")
    overrides: Sequence[str] = option("A setting.", (), "a=b", option="set")
    plots: bool = option("Draw.", True)
    dry_run: bool = option("Nothing.", False)
    limit: Annotated[int, Field(ge=1)] | None = option("At most.", None)
    called: str = "no option"


@pytest.fixture
def called() -> tuple[typer.Typer, list[Any]]:
    app, calls = typer.Typer(), []

    @command(app, "work", Request, Model, "batch_size dtype revision path")
    def work(request: Request, given: dict[str, Any]) -> None:
        """Works."""
        calls.append((request, given))

    app.command("other")(lambda: None)
    return app, calls


def test_what_is_not_given_has_the_default_of_the_request_and_is_left_to_the_settings(called):
    app, calls = called
    assert CliRunner().invoke(app, ["work", "a", "b"], catch_exceptions=False).exit_code == 0
    assert calls == [(Request([Path("a"), Path("b")]), {})]


def test_every_option(called):
    app, calls = called
    words = "work a --set x=1 --set y=2 --no-plots --dry-run --limit 3 --batch-size 4 --dtype int8 --revision v1"
    assert CliRunner().invoke(app, words.split(), catch_exceptions=False).exit_code == 0
    request = Request([Path("a")], ["x=1", "y=2"], plots=False, dry_run=True, limit=3)
    # The default is given too where it stands there; a choice of texts is checked by the settings.
    assert calls == [(request, {"batch_size": 4, "dtype": "int8", "revision": "v1"})]


@pytest.mark.parametrize(
    "words",
    [
        "work",
        "work a --batch-size 0",
        "work a --batch-size 9",
        "work a --limit 0",
        "work a --hidden 1",
        "work a --called x",
    ],
)
def test_limits_and_names_are_those_of_the_classes(called, words):
    app, calls = called
    assert CliRunner().invoke(app, words.split()).exit_code == 2
    assert not calls


def test_the_help_is_that_of_the_fields(called):
    text = CliRunner().invoke(called[0], ["work", "--help"], env={"COLUMNS": "150"}).output
    for words in (
        "Works.",
        "Rows at a time.",
        "1<=x<=8",
        "default: 4",
        "float32|bfloat16",
        "REF",
        "default: the main one",
    ):
        assert words in text, words


def test_a_setting_that_is_not_there_is_no_option():
    with pytest.raises(KeyError, match="nothing"):
        command(typer.Typer(), "work", Request, Model, "nothing")


def test_every_option_of_every_command_has_a_help():
    commands = typer.main.get_command(cli.app).commands
    assert len(commands) == 8
    missing = [(name, option.name) for name, made in commands.items() for option in made.params if not option.help]
    assert not missing
