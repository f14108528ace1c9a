"""Commands made from the fields of settings classes, and the exit code of the one that is called."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import Any, get_args, get_origin, get_type_hints

import typer

from geoalign.errors import ConfigError, GeoAlignError
from geoalign.lab.failures import report
from geoalign.lab.terminal import Console, harmless_messages, say
from geoalign.lab.text import one_line
from geoalign.settings.secrets import masked

# Of whatever copy of click this typer has.
_WrongUse: type[Exception] = typer.BadParameter.__mro__[2]


def command(app: typer.Typer, name: str, request: type) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Makes a function a command; its docstring is the help.

    Args:
        request: a dataclass whose fields with a help are the command's arguments and options; the function is called
            with one.
    """

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        def callback(**values: Any) -> None:
            # Typer has None for a list that is not given; the request has its own default.
            function(request(**{key: value for key, value in values.items() if value is not None}))

        callback.__signature__ = inspect.Signature(list(_parameters(request)))  # type: ignore[attr-defined]
        callback.__annotations__ = {}
        callback.__doc__ = function.__doc__
        app.command(name)(callback)
        return function

    return register


def run_command_line(app: typer.Typer) -> None:
    """Runs the command of this process's arguments and exits: a failure is one line of error, a bug its traceback.

    Exit codes: 2 where the user or the machine is at fault, 1 for a bug (or what a command says of it), 130 after
    Ctrl-C. Of several processes of one run only the first prints: all have the same errors.
    """
    with harmless_messages():
        code = _exit_code(app, sys.argv[1:])
    _flush_output()
    sys.exit(code)


def _exit_code(app: typer.Typer, arguments: list[str]) -> int:
    console = Console(stderr=True)
    try:
        # Not `app()`, which would swallow Ctrl-C, a closed standard input and broken pipes with a word or none.
        with typer.main.get_command(app).make_context("geoalign", list(arguments)) as context:
            context.command.invoke(context)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except _WrongUse as error:
        return _wrong_use(error, console)
    except (KeyboardInterrupt, typer.Abort):
        say(console, f"Stopped: {_command(arguments)}")
        return 130
    except EOFError:
        say(console, f"Error: {_command(arguments)} asked for input, but the standard input is closed", "red")
        return 2
    except Exception as error:  # the boundary of the process
        if isinstance(error, GeoAlignError) and os.environ.get("RANK", "0") != "0":
            return 2
        return report(error, console)
    return 0


def _wrong_use(error: Any, console: Console) -> int:
    """Prints what is wrong with the options or arguments; of none at all shows the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return int(error.exit_code)
    hint = f" (see {error.ctx.command_path} --help)" if getattr(error, "ctx", None) else ""
    report(ConfigError(f"{error.format_message().rstrip('.')}{hint}"), console)
    return int(error.exit_code)


def _command(arguments: list[str]) -> str:
    return one_line(masked(shlex.join(["geoalign", *arguments])), 400)


def _flush_output() -> None:
    """Flushes the output; a reader that is gone (`| head`) is no error at the exit of the process."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parameters(kind: type) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind)
    for item in fields(kind):
        if "help" not in item.metadata:
            continue
        options = dict(item.metadata)
        name, is_argument = options.pop("option", item.name), options.pop("argument", False)
        default = ... if item.default is MISSING else None if item.default == () else item.default
        hint = hints[item.name]
        if get_origin(hint) is Sequence:
            hint = list[get_args(hint)]  # type: ignore[misc]
        if is_argument:
            made = typer.Argument(default, **options)
        else:
            option = f"--{name.replace('_', '-')}"
            made = typer.Option(default, f"{option}/--no-{option[2:]}" if default is True else option, **options)
        yield inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=hint)
