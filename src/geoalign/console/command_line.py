"""Commands made from the fields of settings classes, and the exit code of the one that is called."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import Any, get_args, get_origin, get_type_hints

import typer
import typer.core

from geoalign.console.terminal import Console, harmless_messages, say, say_lines
from geoalign.errors import ConfigError, GeoAlignError
from geoalign.secrets import masked
from geoalign.text import LONGEST_ERROR, one_line

# Of whatever copy of click this typer has.
_WrongUse: type[Exception] = typer.BadParameter.__mro__[2]


class NothingAskedError(Exception):
    """A command was called without anything that says what to do; its text, lines on what to write, follow the help."""


def command(app: typer.Typer, name: str, request: type) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Makes a function a command, its docstring the help; `request`: a dataclass of its arguments and options."""

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        def callback(context: typer.Context, **values: Any) -> None:
            # Typer has None for a list that is not given; the request has its own default.
            made = request(**{key: value for key, value in values.items() if value is not None})
            try:
                function(made)
            except NothingAskedError as nothing:
                _show_help(context, str(nothing))
                raise typer.Exit(2) from None
            except KeyboardInterrupt:
                again = ["geoalign", *sys.argv[1:], *(["--resume"] if getattr(made, "resume", None) is False else [])]
                console = Console(stderr=True)
                console.print()
                say(console, masked(f"Stopped. Go on with: {shlex.join(again)}"))
                raise typer.Exit(130) from None

        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        callback.__signature__ = inspect.Signature([context, *_parameters(request)])  # type: ignore[attr-defined]
        callback.__annotations__ = {}
        app.command(name, cls=PlainCommand, help=help_text(function.__doc__ or ""))(callback)
        return function

    return register


def help_text(docstring: str) -> str:
    """A docstring as the help of a command: the lines of a paragraph are one, which the terminal wraps; indented lines,
    the examples, stay as they are."""
    paragraphs: list[str] = []
    lines: list[str] = []
    indented = False
    for line in [*inspect.cleandoc(docstring).splitlines(), ""]:
        if line.strip():
            indented = line.startswith(" ")
            lines.append(line if indented else line.strip())
        elif lines:
            # What follows a \b is not wrapped.
            paragraphs.append("\b\n" + "\n".join(lines) if indented else " ".join(lines))
            lines = []
    return "\n\n".join(paragraphs)


class PlainCommand(typer.core.TyperCommand):
    """A command whose help has no types in it: `geoalign train [OPTIONS] [CONFIG.yaml]`, and of each argument and
    option its name and what it is."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_usage_of, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        parameters: list[Any] = [*self.get_params(ctx)]
        for parameter in parameters:
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            name, words = record
            if parameter.param_type_name == "argument":
                # That it has to be given stands in the usage.
                rows["Arguments"].append((str(parameter.metavar), str(parameter.help)))
            else:
                rows["Options"].append((name, words))
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


class PlainGroup(typer.core.TyperGroup):
    """The list of all commands, each with the whole first paragraph of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None:
                rows.append((name, (command.help or "").partition("\n\n")[0]))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _usage_of(argument: Any) -> str:
    name = str(argument.metavar)
    many = "..." if argument.nargs != 1 else ""
    return f"{name}{many}" if argument.required else f"[{name}]{many}"


def _show_help(context: typer.Context, more: str) -> None:
    """Prints the help of a command, and lines behind it."""
    say_lines(Console(), f"{context.get_help()}\n{more}")


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
        return 130
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
            made = typer.Option(default, f"--{name.replace('_', '-')}", **options)
        yield inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=hint)


# Native writers (safetensors, torch) report what the system said in errors of other kinds.
_SYSTEM = re.compile(r"\(os error \d+\)|inline_container\.cc|PytorchStreamWriter failed")
# The extra that brings a package which commands import.
_EXTRAS = {
    **dict.fromkeys(
        ("accelerate", "datasets", "pandas", "peft", "pyarrow", "tokenizers", "transformers", "trl"), "trl"
    ),
    **dict.fromkeys(("jinja2", "matplotlib"), "report"),
    "ruamel": "cli",
    "httpx2": "judge",
    "math_verify": "trl",
}
_MEMORY = re.compile(r"can't allocate memory|not enough memory|CUDA out of memory")


def error_line(error: BaseException) -> str | None:
    """The one line that says what went wrong, or which package is missing; None for a fault of this package."""
    if isinstance(error, GeoAlignError | OSError):
        return _line(_of_system(error) if isinstance(error, OSError) else error)
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").partition(".")[0]) in _EXTRAS:
        return f"{package} is not installed, which this command needs: pip install 'geoalign[{_EXTRAS[package]}]'"
    text = str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or _MEMORY.search(text):
        return _line(f"out of memory: {text}" if text else "out of memory")
    if isinstance(error, ValueError) and "embedded null" in text:
        return f"a path: expected one without a NUL character, got {text}"
    if _SYSTEM.search(text) or text.startswith("Symlink loop"):  # pathlib's resolve, before Python 3.13
        return _line(f"a file could not be read or written: {text}")
    return None


def report(error: BaseException, console: Console) -> int:
    """Prints a failure and returns the exit code: 2 where one line is enough, 1 for a bug."""
    line = error_line(error)
    if line is not None:
        console.print("Error: ", style="bold red", end="")
        say(console, line, "red")
        return 2
    say_lines(console, masked("".join(traceback.format_exception(error))))
    bug = "If no setting or engine of yours explains it, this is a bug of geoalign: please report it with these lines."
    say(console, bug, "bold red")
    return 1


def _line(what: object) -> str:
    return one_line(masked(str(what)), LONGEST_ERROR)


def _of_system(error: OSError) -> str:
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if name is not None]
    if error.strerror is None:
        return str(error) or type(error).__name__
    return f"{' to '.join(names)}: {error.strerror}" if names else error.strerror
