"""Hidden states from the user's own files, aligned by row and memory-mapped: only what is used is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor

from geoalign.errors import ConfigError, InputError
from geoalign.text import listed, one_line

# Others have no arithmetic here: 8 bits and less are codes that mean something with a scale alone.
_NUMBERS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SUFFIXES = (".safetensors", ".npy")


def find_hidden_files(given: Sequence[Path], dumps: Sequence[Path]) -> list[Path]:
    """The file of states of each dump: as many files as dumps, or a folder, `12.npy` (.safetensors) for `12.jsonl`."""
    if len(given) == 1 and given[0].is_dir():
        return [_in_folder(given[0], dump) for dump in dumps]
    if len(given) != len(dumps):
        raise ConfigError(
            f"--hidden: expected a file for each of the {len(dumps)} dumps, in their order, or a folder with a file "
            f"named as each of them, got {len(given)} file(s)"
        )
    for path in given:
        if not path.is_file() or path.suffix not in SUFFIXES:
            got = "another file" if path.is_file() else "none there"
            raise ConfigError(f"--hidden {path}: expected a file whose name ends in {' or '.join(SUFFIXES)}, got {got}")
    return list(given)


def read_hidden(path: Path, *, rows: int, dump: Path) -> Float[Tensor, "n d"]:
    """The states of all `rows` rollouts of a dump, those left out included, as a view of the file, not read yet."""
    states = _npy(path) if path.suffix == ".npy" else _safetensors(path)
    if states.dim() != 2 or len(states) != rows or states.shape[1] < 2:
        raise InputError(
            f"{path}: hidden states: expected {rows} rows, one for each rollout of {dump}, and at least 2 columns, "
            f"got shape {tuple(states.shape)}"
        )
    if states.dtype not in _NUMBERS:
        raise InputError(
            f"{path}: hidden states: expected floating-point numbers of 16, 32 or 64 bits, got {states.dtype}"
        )
    return states


def stem(path: Path) -> str:
    """The name of a dump without what says its kind."""
    return Path(path.name.removesuffix(".gz")).stem


def _in_folder(folder: Path, dump: Path) -> Path:
    candidates = [folder / f"{stem(dump)}{suffix}" for suffix in SUFFIXES]
    there = [path for path in candidates if path.is_file()]
    names = " or ".join(path.name for path in candidates)
    if len(there) != 1:
        got = "both" if there else "neither"
        raise ConfigError(f"--hidden {folder}: expected {names} for {dump}, got {got}")
    return there[0]


def _npy(path: Path) -> Tensor:
    try:
        # Not `np.load`, which opens archives and pickles too. Copy-on-write: torch wants memory that it could write to;
        # the file stays as it is. Sizes that a header makes up may overflow.
        with np.errstate(over="ignore"):
            return torch.from_numpy(np.lib.format.open_memmap(path, mode="c"))
    except Exception as error:  # a header is a text of Python's: numpy lets through what goes wrong with a made-up one
        got = f"{type(error).__name__}: {one_line(error, 200)}" if path.stat().st_size else "an empty file"
        raise InputError(f"{path}: hidden states: expected a .npy file of floating-point numbers, got {got}") from error


def _safetensors(path: Path) -> Tensor:
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            if "hidden" in names or len(names) == 1:
                states: Tensor = file.get_tensor("hidden" if "hidden" in names else names[0])
                return states
    except Exception as error:  # dozens of kinds; the message has its text
        raise InputError(f"{path}: hidden states: expected a safetensors file, got {one_line(error)}") from error
    raise InputError(f"{path}: hidden states: expected a tensor `hidden`, or one alone, got {listed(names) or 'none'}")
