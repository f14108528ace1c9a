"""Which files are curated, in which order, and how each is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from geoalign.errors import ConfigError
from geoalign.lab.curate.hidden_files import find_hidden_files
from geoalign.lab.dumps.formats import Layout
from geoalign.lab.dumps.layouts import find_layout
from geoalign.lab.tasks.rows import DUMP_SUFFIXES


@dataclass(frozen=True)
class Input:
    """One file: how it is read, the step that its first rollout names, and where its hidden states lie."""

    path: Path
    layout: Layout
    step: int | None
    hidden: Path | None = None


def find_inputs(
    texts: Sequence[str],
    *,
    name: str | None = None,
    fields: Mapping[str, str] | None = None,
    hidden: Sequence[Path] = (),
) -> list[Input]:
    """The files that the arguments name, with their layouts, by the step that they name where all name one.

    A folder stands for the dumps in it, in the order of the numbers in their names; of a run of `geoalign train` for
    its `rollouts`, of a TRL run for its `completions`. Files of states belong to the dumps in the order of the
    arguments.

    Raises:
        ConfigError: nothing there, a file twice, two files of one step, or no known format.
        InputError: a file without a readable row at its beginning.
    """
    paths = [path for text in texts for path in _files(Path(text).expanduser())]
    if not paths:
        raise ConfigError("ROLLOUTS: expected at least one file of rollouts, got none")
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise ConfigError(f"ROLLOUTS: expected each file once, got {path} twice")
        seen.add(path.resolve())
    states: Sequence[Path | None] = find_hidden_files(hidden, paths) if hidden else [None] * len(paths)
    inputs = []
    for path, state in zip(paths, states, strict=True):
        layout, step = find_layout(path, name=name, fields=fields or {})
        inputs.append(Input(path, layout, step, state))
    steps = [source.step for source in inputs]
    if all(step is not None for step in steps):
        inputs.sort(key=lambda source: source.step or 0)
    return inputs


def natural(name: str) -> list[tuple[int, str]]:
    """A key that puts "2.jsonl" before "10.jsonl"."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    for inner in ("rollouts", "completions"):
        if (path / inner).is_dir():
            path = path / inner
            break
    files = [item for item in path.iterdir() if item.is_file() and item.name.endswith(DUMP_SUFFIXES)]
    if not files:
        raise ConfigError(f"{path}: expected files that end in {', '.join(DUMP_SUFFIXES)}, got none")
    return sorted(files, key=lambda item: natural(item.name))
