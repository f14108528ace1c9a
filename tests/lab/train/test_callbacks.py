from types import SimpleNamespace
from typing import Any

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from geoalign.lab.config.run import EvaluationConfig
from geoalign.lab.train.stages.policy import InTraining
from geoalign.lab.train.stages.trainers import MetricLines


@pytest.fixture
def arguments(tmp_path: Any) -> TrainingArguments:
    return TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)


def test_each_logged_step_is_one_line_and_the_closing_one_is_none(arguments: TrainingArguments) -> None:
    lines: list[Any] = []
    callback = MetricLines("rl", lines.append)
    state = TrainerState(global_step=4, is_world_process_zero=True)
    callback.on_log(arguments, state, TrainerControl(), logs={"loss": 0.5})
    callback.on_log(arguments, state, TrainerControl(), logs={"train_runtime": 3.0, "train_loss": 0.5})
    state.is_world_process_zero = False
    callback.on_log(arguments, state, TrainerControl(), logs={"loss": 0.25})
    assert lines == [{"stage": "rl", "step": 4, "loss": 0.5}]


def test_evaluation_every_so_many_steps_but_not_at_the_end(
    arguments: TrainingArguments, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_trainers_own_history_stays_one_entry_long(arguments: TrainingArguments) -> None:
    callback, state = MetricLines("rl", lambda line: None), TrainerState(is_world_process_zero=True)
    for step in range(1, 50):
        state.global_step = step
        state.log_history.append({"step": step, "num_tokens": 10 * step})
        callback.on_log(arguments, state, TrainerControl(), logs={"loss": 0.5})
    assert state.log_history == [{"step": 49, "num_tokens": 490}]
