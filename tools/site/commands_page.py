"""The page of the commands, written from the command line itself (`geoalign.cli`)."""

from __future__ import annotations

import re
from typing import Any

import typer

from geoalign.cli import app
from tools.site.markdown import table

_HEAD = """# Commands

Every command of `geoalign`, with all of its arguments and options. `geoalign COMMAND --help` prints the same in a
terminal. Options stand before or after the arguments.

`geoalign --version` prints the version. A setting of a YAML file is overridden by `--set a.b=c`: the keys of nested
sections are joined by dots, the value is read as YAML. [Settings](settings.md) lists the keys.

| exit status | meaning |
|---|---|
| 0 | The command did what it was asked for. |
| 1 | A run, a judging or the program itself failed. The last lines say which, and why. |
| 2 | A setting, an option, a file or the machine is at fault. One line says what to change. |
| 3, 4 | Only `geoalign audit --fail-above`: the rate lies above the bound, or is unknown. |
| 130 | Stopped by Ctrl-C. The last line is the command that goes on. |
"""


def page() -> str:
    """The page as Markdown."""
    group: Any = typer.main.get_command(app)
    sections = [_section(name, command) for name, command in group.commands.items()]
    return "\n\n".join([_HEAD.strip(), *sections]) + "\n"


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=f"geoalign {name}")
    parameters = [one for one in command.get_params(context) if one.get_help_record(context) is not None]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    options = [one for one in parameters if one.param_type_name == "option" and one.name != "help"]
    description, examples = _parts(command.help)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {name}", _options_as_code(description), f"```text\ngeoalign {name} {usage}\n```"]
    if arguments:
        parts.append(table(["argument", "meaning"], [_argument_row(one) for one in arguments]))
    if options:
        parts.append(table(["option", "default", "meaning"], [_option_row(one) for one in options]))
    if examples:
        parts.append(f"```bash\n{examples}\n```")
    return "\n\n".join(parts)


def _parts(help_text: str) -> tuple[str, str]:
    """The paragraphs of a command's help, and its examples, which are indented there."""
    paragraphs: list[str] = []
    examples: list[str] = []
    for block in help_text.split("\n\n"):
        if block.startswith("\b"):
            examples.extend(line.removeprefix("  ") for line in block.splitlines()[1:])
        elif block not in ("Example:", "Examples:"):
            paragraphs.append(block)
    return "\n\n".join(paragraphs), "\n".join(examples)


def _argument_row(argument: Any) -> list[str]:
    several = "..." if argument.nargs != 1 else ""
    needed = "" if argument.required else " May be left out."
    return [f"`{argument.metavar}{several}`", f"{_options_as_code(argument.help)}{needed}"]


def _option_row(option: Any) -> list[str]:
    value = "" if option.is_flag else f" {option.metavar or 'VALUE'}"
    return [f"`{option.opts[0]}{value}`", _default(option), _options_as_code(option.help)]


def _options_as_code(text: str) -> str:
    """A text with its options as code; what is code already stays as it is."""
    return re.sub(r"`[^`]*`|--[a-z][a-z-]*", lambda match: f"`{match[0].strip('`')}`", text)


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if option.is_flag:
        return "off"
    if option.default is None or option.default == ():
        return ""
    return f"`{option.default}`"
