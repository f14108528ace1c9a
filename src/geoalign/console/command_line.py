"""Commands made from the fields of dataclasses, and the exit code of the one that is called."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, field, fields
from typing import Any, get_args, get_origin, get_type_hints

import typer
import typer.core

from geoalign.console.terminal import Console, harmless_messages, say, say_lines
from geoalign.errors import ConfigError, GeoAlignError
from geoalign.secrets import masked
from geoalign.text import LONGEST_ERROR, one_line

# The root of the errors of whatever copy of click this typer has: BadParameter, UsageError, ClickException.
_WrongUse: type[Exception] = typer.BadParameter.__mro__[2]


class NothingAskedError(Exception):
    """A command was called without anything that says what to do; its text, lines on what to write, follow the help."""


def option(help: str, default: Any = MISSING, metavar: str | None = None, **more: Any) -> Any:
    """A field of a request that is an option, `--its-name`; without a default it has to be given.

    Args:
        metavar: what stands for the value in the help; more: `option`, another name, or typer's `min` and `max`.
    """
    return field(default=default, metadata={"help": help, "metavar": metavar, **more})


def argument(help: str, metavar: str, default: Any = MISSING) -> Any:
    """A field of a request that is an argument by its position."""
    return option(help, default, metavar, argument=True)


def settings_option(help: str) -> Any:
    """The field for `--set a.b=c`, which may be given several times."""
    return option(help, (), "a.b=c", option="set")


def add_command(app: typer.Typer, name: str, request: type, function: Callable[[Any], None]) -> None:
    """Makes a function a command, its docstring the help.

    Args:
        request: a dataclass, whose fields by `option` and `argument` are the command's; the function is given one.
    """

    def callback(context: typer.Context, **values: Any) -> None:
        # Typer has None for a list that is not given; the request has its own default.
        asked = request(**{key: value for key, value in values.items() if value is not None})
        try:
            function(asked)
        except NothingAskedError as nothing:
            say_lines(Console(), f"{context.get_help()}\n{nothing}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            again = ["geoalign", *sys.argv[1:]]
            if getattr(asked, "resume", None) is False:
                again.append("--resume")
            console = Console(stderr=True)
            console.print()
            say(console, masked(f"Stopped. Go on with: {shlex.join(again)}"))
            raise typer.Exit(130) from None

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    callback.__signature__ = inspect.Signature([context, *_parameters(request)])  # type: ignore[attr-defined]
    callback.__annotations__ = {}
    paragraphs = help_text(function.__doc__ or "")
    short = paragraphs.partition("\n\n")[0]
    app.command(name, cls=PlainCommand, help=paragraphs, short_help=short)(callback)


def _parameters(request: type) -> Iterator[inspect.Parameter]:
    """The parameters that typer makes arguments and options of, from the fields of a request that have a help."""
    hints = get_type_hints(request)
    for item in fields(request):
        if "help" not in item.metadata:
            continue
        words = dict(item.metadata)
        name = words.pop("option", item.name).replace("_", "-")
        is_argument = words.pop("argument", False)
        default = item.default
        if default is MISSING:
            default = ...
        elif default == ():
            default = None
        hint = hints[item.name]
        if get_origin(hint) is Sequence:
            hint = list[get_args(hint)]  # type: ignore[misc]
        made = typer.Argument(default, **words) if is_argument else typer.Option(default, f"--{name}", **words)
        yield inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=hint)


def help_text(docstring: str) -> str:
    """A docstring as the help of a command: the lines of a paragraph are one, which the terminal wraps; those of
    indented paragraphs, the examples, stay as they are."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    # What follows a \b is not wrapped.
    return "\n\n".join(f"\b\n{text}" if text.startswith(" ") else " ".join(text.split()) for text in paragraphs)


class PlainCommand(typer.core.TyperCommand):
    """A command whose help has no types in it: `geoalign train [OPTIONS] [CONFIG.yaml]`, and of each argument and
    option its name and what it is."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_usage_of, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments = []
        options = []
        parameters: list[Any] = [*self.get_params(ctx)]
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                # The usage line already says which arguments are required.
                arguments.append((str(parameter.metavar), str(parameter.help)))
            else:
                options.append(parameter.get_help_record(ctx))
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _usage_of(argument: Any) -> str:
    name = str(argument.metavar)
    many = "..." if argument.nargs != 1 else ""
    return f"{name}{many}" if argument.required else f"[{name}]{many}"


def run_command_line(app: typer.Typer) -> None:
    """Runs the command of this process's arguments and exits: a failure is one line of error, a bug its traceback.

    Exit codes: 2 where the user or the machine is at fault, 1 for a bug (or what a command says of it), 130 after
    Ctrl-C. Of several processes of one run only the first prints: all have the same errors.
    """
    with harmless_messages():
        code = _exit_code(app, sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # A reader that is gone (`| head`) is no error at the exit of the process.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _exit_code(app: typer.Typer, arguments: list[str]) -> int:
    """Runs a command; what it raises is printed."""
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


# Native writers (safetensors, torch) report what the system said in errors of other kinds.
_SYSTEM = re.compile(r"\(os error \d+\)|inline_container\.cc|PytorchStreamWriter failed")
_MEMORY = re.compile(r"can't allocate memory|not enough memory|CUDA out of memory")
# The extra that brings a package which commands import.
_EXTRAS = {
    **dict.fromkeys(
        ("accelerate", "datasets", "pandas", "peft", "pyarrow", "tokenizers", "transformers", "trl"), "trl"
    ),
    **dict.fromkeys(("jinja2", "matplotlib"), "report"),
    "ruamel": "cli",
    **dict.fromkeys(("httpx2", "openai"), "judge"),
    "math_verify": "trl",
}


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


def error_line(error: BaseException) -> str | None:
    """The one line that says what went wrong, or which package is missing; None for a fault of this package."""
    text = _what_went_wrong(error)
    return None if text is None else one_line(masked(text), LONGEST_ERROR)


def _what_went_wrong(error: BaseException) -> str | None:
    text = str(error)
    if isinstance(error, GeoAlignError):
        return text
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        extra = _EXTRAS.get(package)
        if extra is not None:
            return f"{package} is not installed, which this command needs: pip install 'geoalign[{extra}]'"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or _MEMORY.search(text):
        return f"out of memory: {text}" if text else "out of memory"
    if _SYSTEM.search(text) or text.startswith("Symlink loop"):  # pathlib's resolve, before Python 3.13
        return f"a file could not be read or written: {text}"
    return None


def _of_system(error: OSError) -> str:
    """What the system said, behind the names of the files that it was about."""
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if name is not None]
    if error.strerror is None:
        return str(error) or type(error).__name__
    return f"{' to '.join(names)}: {error.strerror}" if names else error.strerror
