"""What is done beside training in every stage: lines of metrics, marked checkpoints, evaluations, `ppo_kl`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from run_files import lines
from transformers import TrainerControl, TrainerState, TrainingArguments

from geoalign.console.terminal import Console
from geoalign.lab.runs.folder import (
    MARK,
    RunFolder,
    checkpoint_path,
    checkpoint_step,
    complete_checkpoints,
    is_last_checkpoint,
    latest_complete,
    mark_complete,
    prune,
)
from geoalign.lab.train.policy import InTraining, PolicyShift
from geoalign.lab.train.read_settings import parse_run_config
from geoalign.lab.train.settings import EvaluationConfig
from geoalign.lab.train.stage import Stage
from geoalign.lab.train.start import rewind


@pytest.fixture
def arguments(tmp_path):
    return TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)


@pytest.fixture
def stage(tmp_path):
    config = parse_run_config({"output": {"keep_checkpoints": 2}})
    plan: Any = SimpleNamespace(folder=RunFolder(tmp_path), config=config, console=Console(quiet=True))
    return Stage(plan, "rl", "GRPO", {"loss": "loss"})


def test_each_logged_step_is_one_line_and_the_closing_one_is_none(stage, arguments, tmp_path):
    state = TrainerState(global_step=4, is_world_process_zero=True, log_history=[{"step": 3}, {"step": 4}])
    with stage:
        stage.on_train_begin(arguments, state, TrainerControl())
        stage.on_log(arguments, state, TrainerControl(), logs={"loss": 0.5})
        stage.on_log(arguments, state, TrainerControl(), logs={"train_runtime": 3.0, "train_loss": 0.5})
        state.is_world_process_zero = False
        stage.on_log(arguments, state, TrainerControl(), logs={"loss": 0.25})
    assert lines(tmp_path) == [{"stage": "rl", "step": 4, "loss": 0.5}]
    assert state.log_history == [{"step": 4}]  # the trainer's own history stays one entry long


def test_evaluation_every_so_many_steps_but_not_at_the_end(arguments, monkeypatch):
    evaluated: list[tuple[int, str]] = []
    monkeypatch.setattr(InTraining, "_evaluate", lambda self, stage, step, model: evaluated.append((step, model)))
    run: Any = SimpleNamespace(
        config=SimpleNamespace(evaluation=EvaluationConfig(every=3)), grpo=SimpleNamespace(use_vllm=False)
    )
    callback = InTraining(run, None, None, None)  # type: ignore[arg-type]
    for step in range(1, 10):
        callback.on_step_end(
            arguments, TrainerState(global_step=step, max_steps=9), TrainerControl(), model=f"model {step}"
        )
    assert evaluated == [(3, "model 3"), (6, "model 6")]


def checkpoint(folder: Path, step: int, *, complete: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_text("weights")
    if complete:
        (path / MARK).write_text("{}")
    return path


def test_only_complete_checkpoints_count_and_half_ones_go(tmp_path):
    newest = [checkpoint(tmp_path, step, complete=step < 12) for step in (2, 10, 12)][1]
    (tmp_path / "checkpoint-best").mkdir()
    assert latest_complete(tmp_path) == newest
    assert not checkpoint_path(tmp_path, 12).exists()
    assert (tmp_path / "checkpoint-best").exists()  # not ours: its name is no step


def test_the_mark_comes_last_then_old_ones_go(stage, arguments):
    for step in (2, 4, 6):
        checkpoint(stage.checkpoints, step, complete=step < 6)
    stage.on_save(arguments, TrainerState(global_step=6), TrainerControl())
    assert [checkpoint_step(path) for path in complete_checkpoints(stage.checkpoints)] == [4, 6]


def test_what_a_kill_between_two_deletions_left_goes_with_the_next_save_and_at_a_resume(stage, arguments):
    for step in (2, 4, 6, 8):
        checkpoint(stage.checkpoints, step)
    (stage.checkpoints / "checkpoint-2" / MARK).unlink()  # half deleted
    stage.on_save(arguments, TrainerState(global_step=8), TrainerControl())
    assert sorted(path.name for path in stage.checkpoints.iterdir()) == ["checkpoint-6", "checkpoint-8"]

    # Killed again, at the last save of the stage: no other follows.
    checkpoint(stage.checkpoints, 2)
    checkpoint(stage.checkpoints, 4, complete=False)
    for path in stage.checkpoints.iterdir():
        if (path / MARK).exists():
            mark_complete(path, step=checkpoint_step(path), run={"stage": "rl", "step": checkpoint_step(path)})
    for _ in range(2):
        rewind(stage.plan.folder, Console(quiet=True), keep=2)
        assert sorted(path.name for path in stage.checkpoints.iterdir()) == ["checkpoint-6", "checkpoint-8"]


def test_of_a_linked_checkpoint_only_the_link_goes(tmp_path):
    theirs = checkpoint(tmp_path / "theirs", 2)
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "checkpoint-2").symlink_to(theirs)
    checkpoint(ours, 4)
    prune(ours, keep=1)
    assert [path.name for path in ours.iterdir()] == ["checkpoint-4"]
    assert (theirs / MARK).is_file()


def test_the_last_checkpoint_of_a_stage(tmp_path):
    path = checkpoint(tmp_path, 4)
    for step, last in ((4, False), (6, True)):
        TrainerState(global_step=step, max_steps=6).save_to_json(str(path / "trainer_state.json"))
        assert is_last_checkpoint(path) is last


class Base:
    """Stands for TRL's trainer: one log-probability pass in the loss, and one for the reference outside it."""

    def __init__(self, new: torch.Tensor) -> None:
        self.new = new
        self.model = SimpleNamespace(training=True)
        self.accelerator = SimpleNamespace(reduce=lambda values, reduction: values)
        self._metrics: dict[str, Any] = {"train": {"ppo_kl": []}}

    def _get_per_token_logps_and_entropies(self, *args: Any) -> tuple[torch.Tensor, None, None]:
        return self.new, None, None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        return self._get_per_token_logps_and_entropies()[0].sum()


class Shifted(PolicyShift, Base):
    pass


def shift(inputs: dict[str, torch.Tensor]) -> float:
    trainer = Shifted(torch.tensor([[-1.0, -2.0], [-3.0, -9.0]], requires_grad=True))
    loss = trainer._compute_loss(None, inputs)
    assert loss.item() == -15.0
    assert trainer._passes is None
    (value,) = trainer._metrics["train"]["ppo_kl"]
    return float(value)


def test_the_shift_is_the_mean_over_response_tokens_of_old_minus_new():
    mask, tools = torch.tensor([[1, 1], [1, 0]]), torch.tensor([[1, 0], [0, 1]])
    old = torch.tensor([[-0.5, -2.5], [-2.0, 100.0]])
    # (-0.5+1) + (-2.5+2) + (-2+3) = 1 over three tokens; the masked fourth counts for nothing, nor do those of tools.
    assert shift({"completion_mask": mask, "old_per_token_logps": old}) == pytest.approx(1 / 3)
    assert shift({"completion_mask": mask, "tool_mask": tools, "old_per_token_logps": old}) == pytest.approx(0.5)
    # Just generated, or nothing counts.
    assert shift({"completion_mask": torch.ones(2, 2)}) == 0.0
    assert shift({"completion_mask": torch.zeros(2, 2), "old_per_token_logps": torch.zeros(2, 2)}) == 0.0
