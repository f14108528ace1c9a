"""The files that a call of `geoalign audit` names, and how each is read; no torch, so that it is said at once."""

from __future__ import annotations

import codecs
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PosixPath
from tempfile import TemporaryDirectory

from geoalign.audit.command import AuditRequest
from geoalign.console.numbers import counted
from geoalign.console.terminal import Console, say, say_paragraph
from geoalign.dumps.files import DUMP_SUFFIXES
from geoalign.dumps.layout import DumpLayout, MissingRolesError, find_layout, parse_fields
from geoalign.dumps.row_files import CSV_SUFFIXES
from geoalign.errors import ConfigError

# Files that are named.
_SHOWN = 3


@dataclass(frozen=True)
class Input:
    """One file: how it is read, the step of its first rollout, and where hidden states and what was trained on lie."""

    path: Path
    layout: DumpLayout
    step: int | None
    hidden: Path | None = None
    trained_on: Path | None = None


def find_inputs(request: AuditRequest, console: Console, stdin: Path | None = None) -> list[Input]:
    """The files that the arguments name, with their layouts, by the step that they name where all name one; says what
    each was recognised as, of many files the first ones.

    A folder stands for the dumps in it by the numbers in their names, of a run for its `rollouts`, of TRL's for its
    `completions`, of prime-rl's for the traces of its training. Of `all` and `effective` only `all` is an input.
    """
    named = (stdin if text == "-" and stdin is not None else Path(text).expanduser() for text in request.rollouts)
    paths = [path for each in named for path in _files(each)]
    if not paths:
        raise ConfigError("ROLLOUTS: expected at least one file of rollouts, got none")
    twice, times = Counter(path.resolve() for path in paths).most_common(1)[0]
    if times > 1:
        raise ConfigError(f"ROLLOUTS: expected each file once, got {twice} twice")
    beside = {path: file for path in paths if (file := _effective(path)) is not None}
    paths = [path for path in paths if path.resolve() not in beside.values()]
    trained = {path: file for path, file in beside.items() if file.parts[-3] == "train"}
    states: Sequence[Path | None] = [None] * len(paths)
    if request.hidden:
        from geoalign.audit.state_files import find_hidden_files

        states = find_hidden_files(request.hidden, paths)
    fields = parse_fields(request.fields)
    each = [(path, state, trained.get(path)) for path, state in zip(paths, states, strict=True)]
    inputs = [Input(path, *_layout(path, request, fields), *more) for path, *more in each]
    steps = [source.step for source in inputs]
    inputs = inputs if None in steps else sorted(inputs, key=lambda source: source.step or 0)
    for source in inputs[:_SHOWN]:
        say(console, f"Reading {source.path}")
        step = "" if source.step is None else f", step {source.step}"
        say_paragraph(console, f"{source.layout}{step}", bullet="  ")
    if len(inputs) > _SHOWN:
        say(console, f"and {counted(len(inputs) - _SHOWN, 'more file')}")
    return inputs


def _layout(path: Path, request: AuditRequest, fields: Mapping[str, str]) -> tuple[DumpLayout, int | None]:
    """The layout of a file and its step; where parts of a rollout were not found, the error ends in a ready command."""
    try:
        return find_layout(path, name=request.format, fields=fields)
    except MissingRolesError as error:
        typed = request.command or ("audit", *request.rollouts)
        command = shlex.join(["geoalign", *typed, *error.options])
        raise ConfigError(f"{error.what} Try: {command}") from None


def _effective(path: Path) -> Path | None:
    """Of prime-rl's file of `all` rollouts the one beside it, of those trained on (or valid, of an evaluation)."""
    own = path.resolve()
    file = own.parent.parent / "effective" / own.name
    return file if own.parts[-2:] == ("all", "traces.jsonl") and file.is_file() else None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    path = next((inner for name in ("rollouts", "completions") if (inner := path / name).is_dir()), path)
    there = [item for item in path.iterdir() if item.is_file() and item.name.endswith(DUMP_SUFFIXES)]
    # Beside dumps of other kinds a CSV file is a log or a list of labels.
    files = [item for item in there if not item.name.endswith(CSV_SUFFIXES)] or there
    files = files or [item for item in path.rglob("traces.jsonl") if "eval" not in item.relative_to(path).parts]
    if not files:
        raise ConfigError(f"{path}: expected files that end in {', '.join(DUMP_SUFFIXES)}, got none")
    # "2.jsonl" before "10.jsonl".
    return sorted(files, key=lambda item: re.sub("[0-9]+", lambda number: number[0].zfill(20), str(item)))


class _Named(PosixPath):
    """A file that goes by its name alone: its folder lasts as long as the call."""

    def __str__(self) -> str:
        return self.name

    def __fspath__(self) -> str:
        return super().__str__()


@contextmanager
def standard_input(rollouts: Sequence[str]) -> Iterator[Path]:
    """A file of what standard input brings where `-` is among the inputs: lines, also packed, parquet, slime's."""
    with TemporaryDirectory() as folder:
        data = sys.stdin.buffer.read() if "-" in rollouts and sys.stdin else b""
        path = _Named(folder, "stdin" + _ending(data))
        path.write_bytes(data)
        yield path


def _ending(data: bytes) -> str:
    """How the name of a file with these bytes ends: told by its first bytes, and lines of JSON begin with a bracket."""
    kinds = {b"\x1f\x8b": ".jsonl.gz", b"PA": ".parquet", b"PK": ".pt"}
    if data[:2] in kinds:
        return kinds[data[:2]]
    text = data.removeprefix(codecs.BOM_UTF8).lstrip()
    header = text.partition(b"\n")[0]
    is_csv = not text.startswith((b"{", b"[")) and any(separator in header for separator in (b",", b";", b"\t"))
    return ".csv" if is_csv else ".jsonl"
