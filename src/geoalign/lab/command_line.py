"""Commands made from the fields of settings classes, and the exit code of the one that is called."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from geoalign.errors import ConfigError, GeoAlignError
from geoalign.lab.failures import report
from geoalign.lab.terminal import Console, harmless_messages, say
from geoalign.lab.text import one_line
from geoalign.settings.masking import masked

# Of whatever copy of click this typer has.
_WrongUse: type[Exception] = typer.BadParameter.__mro__[2]
# The limits of pydantic's `Field`, as typer calls them.
_LIMITS = {"ge": "min", "le": "max"}


def command(
    app: typer.Typer, name: str, request: type, settings: type | None = None, chosen: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command; its docstring is the help.

    Args:
        request: a dataclass whose fields with a help are the command's arguments and options; the function is called
            with one.
        settings: a settings class some of whose fields, the `chosen` ones, are options too; the function is called with
            a dict of those that stand on the command line as well.
    """
    of_request = {item.name: item for item in fields(request) if "help" in item.metadata}
    known = {item.name: item for item in fields(settings)} if settings else {}
    of_settings = {key: known[key] for key in chosen.split()}

    def register(function: Callable[..., None]) -> Callable[..., None]:
        def callback(context: typer.Context, **values: Any) -> None:
            # Typer has None for a list that is not given; the request has its own default.
            asked = request(**{key: values[key] for key in of_request if values[key] is not None})
            given = {key: values[key] for key in of_settings if _is_given(context, key)}
            function(asked, *([given] if settings else []))

        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        own = _parameters(request, of_request)
        parameters = [context, *own, *(_parameters(settings, of_settings, required=False) if settings else ())]
        callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
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


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _parameters(kind: type, chosen: dict[str, Field[Any]], required: bool = True) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for name, item in chosen.items():
        hint, limits = _plain(hints[name])
        absent = ... if required else None
        default = absent if item.default is MISSING else None if item.default == () else item.default
        help_text = item.metadata["help"].replace("null: ", "default: ")
        options = {"help": help_text, "metavar": item.metadata.get("metavar")} | limits
        if item.metadata.get("argument"):
            made = typer.Argument(default, **options)
        else:
            option = f"--{item.metadata.get('option', name).replace('_', '-')}"
            switch = f"{option}/--no-{option[2:]}" if default is True else option
            made = typer.Option(default, switch, **options)
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=hint)


def _plain(hint: Any) -> tuple[Any, dict[str, Any]]:
    """A type that typer reads, with pydantic's limits on it; a choice of texts is a text, which the settings check."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [limit for field in arguments[1:] for limit in getattr(field, "metadata", ())]
        return arguments[0], {_LIMITS[end]: getattr(it, end) for it in limits for end in _LIMITS if hasattr(it, end)}
    if origin is Literal:
        return str, {"metavar": "|".join(arguments)}
    if origin in (Union, UnionType):
        [inner] = [argument for argument in arguments if argument is not NoneType]
        kind, marks = _plain(inner)
        return kind | None, marks
    return (list[arguments] if origin is Sequence else hint), {}  # type: ignore[valid-type]
