"""The evaluations of a run: before RL, every few steps, and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress, TaskID

from geoalign.lab.evaluation.answers import Answer, Sampling, answer_together, prompts_of, slots_of
from geoalign.lab.evaluation.scores import evaluation_values
from geoalign.lab.generation.engine import Engine
from geoalign.lab.generation.trainer_engine import TrainerEngine
from geoalign.lab.generation.transformers_engine import TransformersEngine
from geoalign.lab.models.models import load_saved
from geoalign.lab.models.process_setup import undisturbed
from geoalign.lab.progress import stage_progress
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.store.json_files import append_lines, keep_lines, read_lines
from geoalign.lab.store.records import note_records
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks.base import Problem
from geoalign.lab.train.run import Run


@dataclass(frozen=True)
class Respondent:
    """What answers problems: an engine, the tokenizer of its model, and the source that scores the answers."""

    engine: Engine
    tokenizer: Any
    source: RewardSource


def saved_respondent(run: Run, source: RewardSource, folder: Path) -> Respondent:
    """A model of the run, read from its folder onto the device of training."""
    model, tokenizer = load_saved(folder, run.model)
    if run.grpo.bf16 and run.grpo.device.type == "cpu":
        model = model.to(torch.bfloat16)  # no copy of the weights at every token
    return Respondent(TransformersEngine(model.to(run.grpo.device), tokenizer), tokenizer, source)


def answers_to(
    problems: Sequence[Problem],
    samples: int,
    run: Run,
    respondent: Respondent,
    sampling: Sampling,
    *,
    what: str,
    batch_size: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Answer]:
    """Scored answers of all processes together; leaves every random generator as it was.

    Several processes share the responses. What each response draws depends on `sampling`, the problem and the number of
    the sample alone; a `TrainerEngine` makes batches and draws of its own.
    """
    prompts = prompts_of(problems, respondent.tokenizer, run.model.chat_template_kwargs)
    with undisturbed(run.seed):
        return answer_together(
            respondent.engine,
            slots_of(prompts, samples),
            respondent.source,
            sampling,
            run.processes,
            max_unscored=run.reward.max_unscored,
            what=what,
            batch_size=batch_size,
            progress=progress,
        )


def evaluation_stage(run: Run, source: RewardSource, model_folder: Path, stage: str, step: int) -> None:
    """Evaluates a saved model before or after RL, unless its lines are there."""
    if evaluated(run.folder, stage, len(run.evaluation_sets)):
        return
    if run.processes.is_main:
        drop_evaluation(run.folder, stage)
    respondent = saved_respondent(run, source, model_folder)
    with stage_progress(run.console) as progress:
        evaluate(run, respondent, stage=stage, step=step, progress=progress)


def evaluate(run: Run, respondent: Respondent, *, stage: str, step: int, progress: Progress) -> None:
    """Appends one line per evaluation set, all in one write."""
    settings, binary, lines = run.evaluation, respondent.source.binary, []
    for name, problems in run.evaluation_sets.items():
        samples = settings.samples_of(name, last=stage == "after_rl")
        task = progress.add_task("evaluation", total=len(problems) * samples, values=name)
        answers = answers_to(
            problems,
            samples,
            run,
            respondent,
            Sampling(
                seed=run.seed,
                stream=f"{stage}/{step}/{name}",
                temperature=settings.temperature,
                max_new_tokens=settings.max_new_tokens or run.generation.longest,
            ),
            what=f"evaluation set {name}",
            batch_size=None if isinstance(respondent.engine, TrainerEngine) else settings.batch_size,
            progress=partial(_advance, progress, task),
        )
        values = evaluation_values(answers, samples, binary=binary, gold_utility=run.task.gold_utility)
        progress.update(task, values=f"{name}: {_shown(values)}", visible=stage != "rl")
        lines.append({"step": step, "stage": stage, "set": name, **values})
    if run.processes.is_main:
        append_lines(run.folder.evaluation, lines)
        if stage != "rl":  # a checkpoint follows on those within RL
            note_records(run.folder, "done" if run.folder.final.is_dir() else "rl", step)


def evaluated(folder: RunFolder, stage: str, sets: int) -> bool:
    """True if a stage's evaluation is complete in `evaluation.jsonl`."""
    lines = [line for line in read_lines(folder.evaluation) if line.get("stage") == stage]
    return bool(lines) and len(lines) >= sets


def drop_evaluation(folder: RunFolder, stage: str) -> None:
    """Cuts the lines of a stage's incomplete evaluation away."""
    keep_lines(folder.evaluation, lambda line: line.get("stage") != stage)


def _shown(values: dict[str, Any]) -> str:
    if values["accuracy"] is not None:
        return f"accuracy {values['accuracy']:.3f}"
    shown = {"reward": values["reward"], "gold utility": values["gold_utility"]}
    return ", ".join(f"{name} {value:.3f}" for name, value in shown.items() if value is not None)


def _advance(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done)
