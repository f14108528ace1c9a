"""A run that is resumed in a damaged folder ends as if nothing had happened, or with an error that names the file."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from folders import Damage, damages, interrupted, undamaged
from harness import run
from rich.console import Console

from geoalign.errors import RunFolderError
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.store.seals import Digest
from geoalign.lab.train.resume import check_vacant, finished_whole, go_back

# What is timed or says where it lies differs from run to run.
_TIMED = ("seconds", "time", "memory")


@pytest.fixture(scope="module", autouse=True)
def switches() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("whole") / "run"
    undamaged(root)
    return root


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("halfway") / "run"
    interrupted(root)
    return root


def results(root: Path) -> dict[str, Any]:
    """What a run came to: final weights, logs, rollouts, details, summary, without times."""
    found: dict[str, Any] = {}
    for name in ("metrics.jsonl", "evaluation.jsonl"):
        found[name] = [
            {key: value for key, value in json.loads(line).items() if not any(word in key for word in _TIMED)}
            for line in (root / name).read_text().splitlines()
        ]
    for pattern in ("rollouts/*", "details/*", "checkpoints/final/*", "checkpoints/warm_start/*", "summary.json"):
        for path in root.glob(pattern):
            found[path.relative_to(root).as_posix()] = Digest.of_file(path)
    return found


def copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, symlinks=True)
    return target


def checked(root: Path) -> str | None:
    """The checks of `geoalign train --resume` without the training: the error, or None where it would go on."""
    folder = RunFolder(root)
    console = Console(file=io.StringIO())
    try:
        check_vacant(folder, resume=True)
        folder.check_kinds()
        if folder.started():
            folder.check_start()
        if not finished_whole(folder, console) and folder.started():
            go_back(folder, console)
    except RunFolderError as error:
        return str(error)
    return None


def state(root: Path) -> dict[str, Digest]:
    """Every file that training goes on from, with its content."""
    return {
        path.relative_to(root).as_posix(): Digest.of_file(path)
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix != ".html"
    }


def expected_states(halfway: Path, folder: Path) -> list[dict[str, Digest]]:
    """What may be left of the interrupted run: that of its last checkpoint, of the one before, of RL's start."""
    found = []
    for number, gone in enumerate(((), (4,), (4, 2))):
        root = copy(halfway, folder / f"expected{number}")
        for step in gone:
            shutil.rmtree(root / "checkpoints" / "rl" / f"checkpoint-{step}")
        assert checked(root) is None
        found.append(state(root))
    return found


def test_damages_of_an_interrupted_run_are_refused_by_name_or_healed(halfway: Path, tmp_path: Path) -> None:
    allowed = expected_states(halfway, tmp_path)
    # Of the twelve for every file some two; the slow test below has all of them.
    cases = list(damages(halfway))[::5]
    assert len(cases) >= 60
    broken, refused = [], 0
    for number, damage in enumerate(cases):
        root = copy(halfway, tmp_path / f"{number}")
        damage.apply(root)
        said = checked(root)
        if said is not None:
            refused += 1
            if Path(damage.path).name not in said or "expected" not in said or "Traceback" in said:
                broken.append(f"{damage.name}: said {said}")
        else:
            left = state(root)
            # What a later checkpoint of the same run will prune or overwrite may stand or lack.
            if not any(_same_but_bystanders(left, one) for one in allowed):
                broken.append(f"{damage.name}: goes on from another state")
        shutil.rmtree(root)
    assert not broken, "\n".join(broken[:20]) + f"\n{len(broken)} of {len(cases)}"
    assert refused > len(cases) / 4


def _same_but_bystanders(left: dict[str, Digest], one: dict[str, Digest]) -> bool:
    def relevant(files: dict[str, Digest]) -> dict[str, Digest]:
        rl = [int(name.split("/")[2][11:]) for name in files if name.startswith("checkpoints/rl/checkpoint-")]
        newest = f"checkpoints/rl/checkpoint-{max(rl)}/" if rl else "none"
        return {
            name: digest
            for name, digest in files.items()
            if not name.startswith(("checkpoints/sft/", ".lock", "records.json"))
            and (not name.startswith("checkpoints/rl/") or name.startswith(newest))
        }

    return relevant(left) == relevant(one)


def test_every_damage_of_a_finished_run_is_refused_by_name_or_healed(whole: Path, tmp_path: Path) -> None:
    broken = []
    before = state(whole)
    for number, damage in enumerate(damages(whole)):
        # Nothing is resumed from the trainers' checkpoints of a finished run.
        if damage.path.startswith(("checkpoints/sft", "checkpoints/rl")):
            continue
        root = copy(whole, tmp_path / f"{number}")
        damage.apply(root)
        said = checked(root)
        if said is not None:
            if Path(damage.path).name not in said:
                broken.append(f"{damage.name}: said {said}")
        elif damage.path not in ("summary.json", "records.json") and state(root) != before:
            broken.append(f"{damage.name}: not noticed")
        shutil.rmtree(root)
    assert not broken, "\n".join(broken[:20]) + f"\n{len(broken)}"


FEW = [
    Damage("checkpoints/rl/checkpoint-4/optimizer.pt", "gone"),
    Damage("checkpoints/rl/checkpoint-4/model.safetensors", "a bit flipped in the middle"),
    Damage("config.yaml", "cut in the middle"),
    Damage("metrics.jsonl", "cut near its end"),
    Damage("rollouts/step-000000.parquet", "gone"),
]


@pytest.mark.parametrize("damage", FEW, ids=lambda damage: damage.name)
def test_a_damaged_run_ends_as_the_undamaged_one_or_says_why_not(
    whole: Path, halfway: Path, tmp_path: Path, damage: Damage
) -> None:
    resumed(whole, halfway, tmp_path / "run", damage)


@pytest.mark.slow
def test_all_damaged_runs_end_as_the_undamaged_one_or_say_why_not(whole: Path, halfway: Path, tmp_path: Path) -> None:
    for number, damage in enumerate(damages(halfway)):
        resumed(whole, halfway, tmp_path / str(number), damage)
        shutil.rmtree(tmp_path / str(number))


def resumed(whole: Path, halfway: Path, root: Path, damage: Damage) -> None:
    damage.apply(copy(halfway, root))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.SECONDS", 120.0)  # it trains
        outcome = run("train", "--output", root, "--resume")
        assert not outcome.broken(), damage.name
    if outcome.code:
        assert outcome.code == 2
        assert Path(damage.path).name in outcome.err.replace("\n", ""), outcome.err
    else:
        assert results(root) == results(whole), damage.name


def test_the_checkpoint_that_is_refused_and_the_one_taken_are_named(halfway: Path, tmp_path: Path) -> None:
    root = copy(halfway, tmp_path / "run")
    Damage("checkpoints/rl/checkpoint-4/scheduler.pt", "gone").apply(root)
    said = io.StringIO()
    go_back(RunFolder(root), Console(file=said))
    assert "checkpoints/rl/checkpoint-4 is refused." in said.getvalue()
    assert "scheduler.pt: expected a file of" in said.getvalue()
    assert "Resuming from checkpoints/rl/checkpoint-2." in said.getvalue()


def test_files_of_the_user_stay(halfway: Path, tmp_path: Path) -> None:
    root = copy(halfway, tmp_path / "run")
    for name in ("rollouts/my_labels.csv", "rollouts/keep.tmp", "notes.tmp", "rollouts/step-000004.csv"):
        (root / name).write_text("mine")
    (root / "rollouts" / "mine").mkdir()
    (root / "rollouts" / "step-000004.parquet").write_bytes(b"of after the checkpoint")
    (root / "rollouts" / "step-000004.parquet.tmp").write_bytes(b"half")
    before = state(halfway)
    assert checked(root) is None
    assert state(root).keys() - before.keys() == {
        "rollouts/my_labels.csv",
        "rollouts/keep.tmp",
        "notes.tmp",
        "rollouts/step-000004.csv",
    }
    assert (root / "rollouts" / "mine").is_dir()
