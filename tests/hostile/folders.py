"""Damaged run folders: every file of a tiny run, damaged in every way that a disk, a copy or a person may."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from geoalign.lab.config.loading import parse_run_config
from geoalign.lab.train.train import train

SETTINGS = {
    "model": {"hidden_size": 16, "layers": 1, "heads": 1},
    "task": {"operands": 2, "digits": 1, "train_problems": 16, "evaluation_problems": 4, "demonstrations": 32},
    "curator": {"type": "geoalign", "min_scores": 4, "alpha": 0.5, "projector": {"steps": 2}},
    "reward": {"flip": 0.3},
    "sft": {"max_steps": 2, "per_device_train_batch_size": 4, "save_steps": 2},
    "grpo": {
        "max_steps": 6,
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "steps_per_generation": 2,
        "save_steps": 2,
        "max_completion_length": 4,
    },
    "evaluation": {"every": 2},
    "output": {"details_every": 1},
}


class Interrupted(BaseException):
    """Ends a run as a kill does."""


def undamaged(root: Path) -> None:
    """A finished run."""
    train(parse_run_config(SETTINGS), root, report=False)


def interrupted(root: Path) -> None:
    """The same run, ended after its fourth update: checkpoints of steps 2 and 4."""
    from geoalign.lab.train.stages.trainers import CompleteCheckpoints

    whole = CompleteCheckpoints.on_save

    def die(callback, arguments, state, control, **more):  # type: ignore[no-untyped-def]
        control = whole(callback, arguments, state, control, **more)
        if state.global_step == 4 and state.max_steps == 6:
            raise Interrupted
        return control

    config = parse_run_config(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompleteCheckpoints, "on_save", die)
        with pytest.raises(Interrupted):
            train(config, root, report=False)


@dataclass(frozen=True)
class Damage:
    """One way to damage one path of a run folder."""

    path: str
    kind: str

    @property
    def name(self) -> str:
        return f"{self.path}: {self.kind}"

    def apply(self, root: Path) -> None:
        DAMAGES[self.kind](root / self.path)


def _truncate(share: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])

    return damage


def _flip(share: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        place = min(int(share * len(data)), len(data) - 1)
        data[place] ^= 4
        path.write_bytes(bytes(data))

    return damage


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _folder(path: Path) -> None:
    _remove(path)
    path.mkdir()


def _broken_link(path: Path) -> None:
    _remove(path)
    path.symlink_to("nowhere")


def _pipe(path: Path) -> None:
    _remove(path)
    os.mkfifo(path)


def _binary(path: Path) -> None:
    _remove(path)
    path.write_bytes(bytes(range(256)) * 8)


def _edit_number(path: Path) -> None:
    """Another digit in place of the last one, where there is one: still text, often still JSON."""
    data = path.read_bytes()
    place = max((data.rfind(b"%d" % digit) for digit in range(10)), default=-1)
    if place < 0:
        path.write_bytes(data + b"7")
    else:
        path.write_bytes(data[:place] + (b"8" if data[place : place + 1] != b"8" else b"3") + data[place + 1 :])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": _truncate(0.0),
    "cut in its first tenth": _truncate(0.1),
    "cut in the middle": _truncate(0.5),
    "cut near its end": _truncate(0.98),
    "a bit flipped in the middle": _flip(0.5),
    "its last bit pattern changed": _flip(1.0),
    "gone": _remove,
    "a folder": _folder,
    "a broken link": _broken_link,
    "a pipe": _pipe,
    "binary": _binary,
    "a number edited": _edit_number,
}
_OF_FOLDERS = ("gone", "a broken link", "a pipe", "binary")
# Drawn anew from the rest; nothing is gone on from them.
_DERIVED = ("report.html", "figures", ".lock")


def damages(root: Path) -> Iterator[Damage]:
    """Every damage of every file and folder of a run."""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] in _DERIVED:
            continue
        for kind in _OF_FOLDERS if path.is_dir() else DAMAGES:
            yield Damage(name, kind)
