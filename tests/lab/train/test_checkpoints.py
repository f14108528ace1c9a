from pathlib import Path

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from geoalign.lab.store.seals import MARK, checkpoint_step, complete_checkpoints, is_last, latest_complete, prune
from geoalign.lab.train.stages.trainers import CompleteCheckpoints


def checkpoint(folder: Path, step: int, *, complete: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_text("weights")
    if complete:
        (path / MARK).write_text("{}")
    return path


def test_only_complete_checkpoints_count_and_half_ones_go(tmp_path: Path) -> None:
    checkpoint(tmp_path, 2)
    newest = checkpoint(tmp_path, 10)
    half = checkpoint(tmp_path, 12, complete=False)
    (tmp_path / "checkpoint-best").mkdir()
    (tmp_path / "runs").mkdir()
    assert latest_complete(tmp_path) == newest
    assert checkpoint_step(newest) == 10
    assert not half.exists()
    assert (tmp_path / "checkpoint-best").exists()  # not ours: its name is no step


def test_a_kill_while_pruning_leaves_no_half_checkpoint_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = checkpoint(tmp_path, 2)
    checkpoint(tmp_path, 4)

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        prune(tmp_path, 1)
    assert old.exists()
    assert complete_checkpoints(tmp_path) == [tmp_path / "checkpoint-4"]


@pytest.mark.parametrize(("keep", "left"), [(1, [6]), (2, [4, 6]), (None, [2, 4, 6])])
def test_the_mark_comes_last_then_old_ones_go(tmp_path: Path, keep: int | None, left: list[int]) -> None:
    checkpoint(tmp_path, 2)
    checkpoint(tmp_path, 4)
    checkpoint(tmp_path, 6, complete=False)
    arguments = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    callback = CompleteCheckpoints(tmp_path, keep)
    callback.on_save(arguments, TrainerState(global_step=6), TrainerControl())
    assert [checkpoint_step(path) for path in complete_checkpoints(tmp_path)] == left


def test_the_last_checkpoint_of_a_stage(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, 4)
    for step, last in ((4, False), (6, True)):
        TrainerState(global_step=step, max_steps=6).save_to_json(str(path / "trainer_state.json"))
        assert is_last(path) is last
