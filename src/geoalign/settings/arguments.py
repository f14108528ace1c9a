"""How a request of the command line declares its arguments and options."""

from __future__ import annotations

from dataclasses import MISSING, field
from typing import Any


def option(help: str, default: Any = MISSING, metavar: str | None = None, **more: Any) -> Any:
    """A field that is an option; without a default it has to be given. Further words are typer's: min, max."""
    return field(default=default, metadata={"help": help, "metavar": metavar, **more})


def argument(help: str, metavar: str, default: Any = MISSING) -> Any:
    """A field that is an argument by its position."""
    return option(help, default, metavar, argument=True)


def settings_option(help: str) -> Any:
    return option(help, (), "a.b=c", option="set")
