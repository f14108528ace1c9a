"""kill -9 at any moment, then --resume: the same weights, bit for bit, and the same records."""

import json
import random
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from forked import forks
from run_files import lines

sys.path.insert(0, str(Path(__file__).parent))
from kill_points import train_and_die

SETTINGS: dict[str, Any] = {
    "model": {"hidden_size": 16, "layers": 1, "heads": 1},
    "task": {"operands": 2, "digits": 1, "train_problems": 16, "evaluation_problems": 8, "demonstrations": 64},
    "reward": {"flip": 0.2},
    "curator": {"type": "geoalign", "min_scores": 4, "alpha": 0.5, "projector": {"steps": 3}},
    "sft": {"max_steps": 4, "per_device_train_batch_size": 8, "save_steps": 2},
    "grpo": {
        "max_steps": 8,
        "num_generations": 4,
        "per_device_train_batch_size": 16,
        "steps_per_generation": 2,
        "save_steps": 4,
        "max_completion_length": 6,
    },
    "evaluation": {"every": 3},
    "output": {"keep_checkpoints": 1, "details_every": 1},
}
TIMED = ("seconds", "time")

# Half-written checkpoints, and what follows the last one of a stage, when there is nothing left to train.
PLACES = (
    "sft/checkpoint-4/trainer_state.json",
    "checkpoints/warm_start.tmp",
    "rl/checkpoint-8/trainer_state.json",
    "checkpoints/final.tmp",
    "run/figures",
)


class Undisturbed(NamedTuple):
    """A run that nothing disturbed, and how many file operations it made."""

    root: Path
    operations: int


@pytest.fixture(scope="module")
def processes():
    return forks()


@pytest.fixture(scope="module")
def undisturbed(processes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    first = processes.Process(target=len, args=((),))  # the server imports at its first request
    first.start()
    first.join()
    assert run(processes, folder / "run", None, folder / "counter") == 0
    return Undisturbed(folder / "run", int((folder / "counter").read_text()))


def run(processes: Any, root: Path, kill_at: int | str | None, counter: Path) -> int:
    process = processes.Process(target=train_and_die, args=(SETTINGS, str(root), kill_at, str(counter)))
    process.start()
    process.join()
    code = process.exitcode
    process.close()
    assert isinstance(code, int)
    return code


def records(root: Path) -> dict[str, Any]:
    """Everything a run leaves for a reader, without the seconds it took."""
    found: dict[str, Any] = {}
    for name in ("metrics.jsonl", "evaluation.jsonl"):
        found[name] = [
            {key: value for key, value in line.items() if not any(word in key for word in TIMED)}
            for line in lines(root, name=name)
        ]
    for pattern in ("rollouts/*", "details/*", "responses/*", "checkpoints/final/*"):
        for path in root.glob(pattern):
            found[str(path.relative_to(root))] = path.read_bytes()
    found["summary.json"] = json.loads((root / "summary.json").read_text())
    found["checkpoints"] = sorted(path.name for path in root.glob("checkpoints/*/checkpoint-*"))
    found["figures"] = sorted(path.name for path in root.glob("figures/*"))
    assert (root / "report.html").is_file()
    return found


def assert_same(root: Path, other: Path) -> None:
    ours, theirs = records(root), records(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == theirs[name], name


def test_the_undisturbed_run_is_worth_comparing_with(undisturbed):
    found = records(undisturbed.root)
    assert [line["step"] for line in found["metrics.jsonl"]] == [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8]
    assert [line["stage"] for line in found["evaluation.jsonl"]] == ["before_rl", "rl", "rl", "after_rl"]
    assert {name for name in found if name.startswith("rollouts")} == {
        f"rollouts/step-{step:06d}.parquet" for step in (0, 2, 4, 6)
    }
    assert {name for name in found if name.startswith("details")}
    assert found["checkpoints"] == ["checkpoint-4", "checkpoint-8"]  # one kept of each stage
    assert undisturbed.operations > 100


def test_killed_while_writing_at_one_place_after_the_other(processes, undisturbed, tmp_path):
    root = tmp_path / "run"
    for place in PLACES:
        assert run(processes, root, place, tmp_path / "count") == -signal.SIGKILL, place
    assert run(processes, root, None, tmp_path / "count") == 0
    assert_same(root, undisturbed.root)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(24))
def test_killed_at_any_file_operation(processes, undisturbed, tmp_path, part):
    root = tmp_path / "run"
    width = undisturbed.operations / 24
    kill_at = random.Random(part).randint(int(part * width) + 1, int((part + 1) * width))
    assert run(processes, root, kill_at, tmp_path / "count") == -signal.SIGKILL
    assert run(processes, root, None, tmp_path / "count") == 0
    assert_same(root, undisturbed.root)
