"""One run with settings that are not the defaults: epochs, iterations, accumulation, rare logs, nothing kept."""

from typing import Any

import pytest
from run_files import lines

from geoalign.lab.runs.folder import RunFolder


@pytest.fixture(scope="module")
def folder(tiny, train_here, tmp_path_factory) -> RunFolder:
    settings: dict[str, Any] = tiny(
        sft={"max_steps": 4, "logging_steps": 2, "save_steps": 4},
        evaluation={"problems": 2, "samples": 3},
        output={"rollouts": False, "details_every": None, "keep_checkpoints": None},
    )
    # 16 rollouts a generation are 4 of the 16 problems: 4 generations an epoch, each used 2 x 2 / 2 = 2 times.
    grpo = {**settings["grpo"], "num_train_epochs": 2, "num_iterations": 2, "gradient_accumulation_steps": 2}
    del grpo["max_steps"]
    root = tmp_path_factory.mktemp("ordinary") / "run"
    train_here({**settings, "grpo": {**grpo, "save_steps": 8}}, root)
    return RunFolder(root)


def test_epochs_and_iterations_say_how_many_updates_there_are(folder: RunFolder) -> None:
    assert [line["step"] for line in lines(folder.root, "rl")] == list(range(1, 17))
    generated = [line["step"] for line in lines(folder.root, "rl") if "reward" in line]
    assert generated == [1, 3, 5, 7, 9, 11, 13, 15]


def test_a_warm_start_may_log_less_often(folder: RunFolder) -> None:
    assert [line["step"] for line in lines(folder.root, "sft")] == [2, 4]


def test_what_is_not_kept_is_not_there_and_every_checkpoint_is(folder: RunFolder) -> None:
    assert not folder.rollouts.exists()
    assert not folder.details.exists()
    assert sorted(path.name for path in folder.rl_checkpoints.iterdir()) == ["checkpoint-16", "checkpoint-8"]


def test_a_set_is_cut_and_each_problem_answered_several_times(folder: RunFolder) -> None:
    (last,) = lines(folder.root, "after_rl", "evaluation.jsonl")
    assert (last["samples"], last["count"]) == (3, 6)
