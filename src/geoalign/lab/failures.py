"""What a failure prints: one line where the user or the machine is at fault, a traceback for a bug or an engine."""

from __future__ import annotations

import re
import traceback

from geoalign.errors import GeoAlignError
from geoalign.lab.terminal import Console, say, say_lines
from geoalign.lab.text import one_line
from geoalign.settings.secrets import masked

# Native writers (safetensors, torch) report what the system said in errors of other kinds.
_SYSTEM = re.compile(r"\(os error \d+\)|inline_container\.cc|PytorchStreamWriter failed")
# Packages that generate in processes of their own; what happens there reaches this one as an error of theirs.
_ENGINES = {"vllm": "vLLM"}
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
    """The one line that says what went wrong; None for a fault of this package.

    An error of this package's own kinds is its message; an error of the operating system is its file and reason; a lack
    of memory is how much was asked for, where that is known; a package that is missing is its name and the extra.
    """
    if isinstance(error, GeoAlignError):
        return _line(error)
    if isinstance(error, OSError):
        return _line(_of_system(error))
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


def engine_line(error: BaseException) -> str | None:
    """The one line that names the engine that failed, with the first cause of its error; None where none did."""
    engine = next((name for module, name in _ENGINES.items() if _went_through(error, module)), None)
    if engine is None:
        return None
    cause = error
    while cause.__cause__ is not None or (cause.__context__ is not None and not cause.__suppress_context__):
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    said = [f"{type(one).__name__}: {one}" for one in dict.fromkeys((error, cause))]
    return _line(f"{engine} failed, not geoalign: {', because of '.join(said)} (the lines of {engine} above say more)")


def _went_through(error: BaseException, module: str) -> bool:
    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(name.partition(".")[0] == module for name in (type(error).__module__, *frames))


def report(error: BaseException, console: Console) -> int:
    """Prints a failure and returns the exit code: 2 where one line is enough or an engine failed, 1 for a bug."""
    line = error_line(error)
    if line is not None:
        console.print("Error: ", style="bold red", end="")
        say(console, line, "red")
        return 2
    say_lines(console, masked("".join(traceback.format_exception(error))))
    engine = engine_line(error)
    if engine is not None:
        say(console, engine, "bold red")
        return 2
    say(
        console,
        "If no setting of yours explains it, this is a bug of geoalign: please report it with the lines above.",
        "bold red",
    )
    return 1


def _line(what: object) -> str:
    return one_line(masked(str(what)))


def _of_system(error: OSError) -> str:
    """File and reason; the text of errors that libraries raise as the system's without either."""
    names = [_name(name) for name in (error.filename, error.filename2) if name is not None]
    if error.strerror is None:
        return str(error) or type(error).__name__
    return f"{' to '.join(names)}: {error.strerror}" if names else error.strerror


def _name(name: object) -> str:
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)
