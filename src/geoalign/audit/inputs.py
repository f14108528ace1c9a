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
from geoalign.audit.options import check_options
from geoalign.console.numbers import counted
from geoalign.console.terminal import Console, say, say_paragraph
from geoalign.dumps.files import DUMP_SUFFIXES
from geoalign.dumps.formats.verifiers import VERIFIERS
from geoalign.dumps.layout import DumpLayout, MissingRolesError, find_layout, parse_fields
from geoalign.dumps.prime_rl import annotations_of, find_stream, passed_over
from geoalign.dumps.row_files import CSV_SUFFIXES
from geoalign.errors import ConfigError

# Files that are named.
_SHOWN = 3
# Files that engines write beside rollouts: what was asked, what failed, and summaries.
_BESIDE_ROLLOUTS = (
    "_materialized_inputs.jsonl", "_failures.jsonl", "_aggregate_metrics.json", "_agent_metrics.json",
    "_reward_profiling.jsonl", "metadata.json",
)  # fmt: skip


@dataclass(frozen=True)
class Input:
    """One file: how it is read, the step of its first rollout, and where hidden states and what was trained on lie.

    `passed_over` is how many of its rows are evaluations of a training, which are not audited.
    """

    path: Path
    layout: DumpLayout
    step: int | None
    hidden: Path | None = None
    trained_on: Path | None = None
    passed_over: int = 0


def find_inputs(request: AuditRequest, console: Console, stdin: Path | None = None) -> list[Input]:
    """The files that the arguments name, with their layouts, by the step that they name where all name one; says what
    each was recognised as, of many files the first ones.

    A folder stands for the dumps in it by the numbers in their names, of a run for its `rollouts`, of TRL's for its
    `completions`, of prime-rl's for the traces of its training: its stream, or of `all` and `effective` only `all`.

    Raises:
        ConfigError: there are no such files, they cannot be told, or options cannot be together.
    """
    check_options(request)
    paths: list[Path] = []
    for text in request.rollouts:
        path = Path(text).expanduser()
        if text == "-" and stdin is not None:
            path = stdin
        paths += _files(path)
    _check_each_once(paths)
    effective = {path: _effective(path) for path in paths}
    paths = [path for path in paths if path.resolve() not in effective.values()]
    hidden: Sequence[Path | None] = [None] * len(paths)
    if request.hidden:
        from geoalign.audit.state_files import find_hidden_files

        hidden = find_hidden_files(request.hidden, paths)
    fields = parse_fields(request.fields)
    inputs = []
    for path, states in zip(paths, hidden, strict=True):
        layout, step = _layout(path, request, fields)
        beside = effective[path]
        # Of an evaluation, the other file has what was valid; nothing was trained on.
        trained_on = beside if beside is not None and beside.parts[-3] == "train" else annotations_of(path)
        evaluations = passed_over(path) if layout.format is VERIFIERS else 0
        inputs.append(
            Input(path=path, layout=layout, step=step, hidden=states, trained_on=trained_on, passed_over=evaluations)
        )
    if all(source.step is not None for source in inputs):
        inputs.sort(key=lambda source: source.step or 0)
    _say_inputs(console, inputs)
    return inputs


def _check_each_once(paths: Sequence[Path]) -> None:
    """Raises ConfigError where there is no file, or one is named twice."""
    if not paths:
        raise ConfigError("ROLLOUTS: expected at least one file of rollouts, got none")
    path, times = Counter(path.resolve() for path in paths).most_common(1)[0]
    if times > 1:
        raise ConfigError(f"ROLLOUTS: expected each file once, got {path} twice")


def _say_inputs(console: Console, inputs: Sequence[Input]) -> None:
    """Says what the first files were recognised as, and how many more there are."""
    for source in inputs[:_SHOWN]:
        say(console, f"Reading {source.path}")
        step = "" if source.step is None else f", step {source.step}"
        say_paragraph(console, f"{source.layout}{step}", bullet="  ")
        if source.passed_over:
            say(console, f"  passed over: {counted(source.passed_over, 'episode')} of evaluations")
    if len(inputs) > _SHOWN:
        say(console, f"and {counted(len(inputs) - _SHOWN, 'more file')}")


def _layout(path: Path, request: AuditRequest, fields: Mapping[str, str]) -> tuple[DumpLayout, int | None]:
    """The layout of a file and its step; where parts of a rollout were not found, the error ends in a ready command."""
    try:
        return find_layout(path, name=request.format, fields=fields)
    except MissingRolesError as error:
        typed = _without_roles(request.command or ("audit", *request.rollouts), error.roles)
        command = shlex.join(["geoalign", *typed, *error.options])
        if error.is_complete:
            raise ConfigError(f"{error.what} Try: {command}") from None
        raise ConfigError(f"{error.what} Put the name of a field for NAME: {command}") from None


def _without_roles(typed: Sequence[str], roles: Sequence[str]) -> list[str]:
    """What was typed without the options `--field ROLE=...` of these roles, which the command is to name anew."""
    words: list[str] = []
    for word in typed:
        role = word.removeprefix("--field=").partition("=")[0].strip()
        if role in roles and (word.startswith("--field=") or words[-1:] == ["--field"]):
            words = words[:-1] if words[-1:] == ["--field"] else words
        else:
            words.append(word)
    return words


def _effective(path: Path) -> Path | None:
    """Of prime-rl's file of `all` rollouts the one beside it, of those trained on (or valid, of an evaluation)."""
    own = path.resolve()
    file = own.parent.parent / "effective" / own.name
    return file if own.parts[-2:] == ("all", "traces.jsonl") and file.is_file() else None


def _files(path: Path) -> list[Path]:
    """The dumps that a path stands for: itself, or those in a folder."""
    if not path.is_dir():
        return [path]
    for name in ("rollouts", "completions"):
        if (path / name).is_dir():
            path = path / name
            break
    stream = find_stream(path)
    if stream is not None:
        return [stream]
    dumps = [item for item in path.iterdir() if item.is_file() and item.name.endswith(DUMP_SUFFIXES)]
    # What NeMo-Gym and verifiers write beside rollouts; and beside other dumps a CSV file is a log or a list of labels.
    dumps = [item for item in dumps if not item.name.endswith(_BESIDE_ROLLOUTS)] or dumps
    files = [item for item in dumps if not item.name.endswith(CSV_SUFFIXES)] or dumps
    if not files:
        files = [item for item in path.rglob("traces.jsonl") if "eval" not in item.relative_to(path).parts]
    if not files:
        files = [*path.rglob("results.jsonl")]
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
    """A file of what standard input brings where `-` is among the inputs: lines, also packed, parquet, slime's samples,
    a log of Inspect, a database of trackio."""
    with TemporaryDirectory() as folder:
        data = sys.stdin.buffer.read() if "-" in rollouts and sys.stdin else b""
        path = _Named(folder, "stdin" + _ending(data))
        path.write_bytes(data)
        yield path


def _ending(data: bytes) -> str:
    """How the name of a file with these bytes ends: told by its first bytes, and lines of JSON begin with a bracket."""
    # An archive of torch begins with its data, one of Inspect with its journal.
    if data.startswith(b"PK") and b"_journal/" in data[:100]:
        return ".eval"
    kinds = {b"\x1f\x8b": ".jsonl.gz", b"PA": ".parquet", b"PK": ".pt", b"\x28\xb5": ".jsonl.zst"}
    if data[:2] in kinds:
        return kinds[data[:2]]
    if data.startswith(b"SQLite format 3\x00"):
        return ".db"
    text = data.removeprefix(codecs.BOM_UTF8).lstrip()
    header = text.partition(b"\n")[0]
    is_csv = not text.startswith((b"{", b"[")) and any(separator in header for separator in (b",", b";", b"\t"))
    return ".csv" if is_csv else ".jsonl"
