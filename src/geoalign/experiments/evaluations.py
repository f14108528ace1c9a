"""The evaluations of a run: before RL, every few steps, and after."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from geoalign.evaluation.accuracy import evaluate_accuracy
from geoalign.experiments.resume import evaluated
from geoalign.experiments.run import Run
from geoalign.rewards.base import RewardSource
from geoalign.training.callbacks import stage_progress
from geoalign.training.files import append_lines
from geoalign.training.models import load_saved, weights_dtype
from geoalign.training.randomness import undisturbed


def evaluation_stage(run: Run, source: RewardSource, model_folder: Path, stage: str, step: int) -> None:
    """Evaluates a saved model before or after RL, unless its lines are there."""
    if evaluated(run.folder, stage, len(run.evaluation_sets())):
        return
    model, tokenizer = load_saved(model_folder, dtype=weights_dtype(run.config.model))
    model = model.to(run.grpo.device)
    with stage_progress(run.console) as progress:
        evaluate(run, source, model, tokenizer, stage=stage, step=step, progress=progress)


def evaluate(
    run: Run, source: RewardSource, model: Any, tokenizer: Any, *, stage: str, step: int, progress: Progress
) -> None:
    """Appends one line per evaluation set, all in one write; leaves every random generator as it was."""
    settings = run.config.evaluation
    longest = settings.max_new_tokens or run.generation.longest
    lines = []
    for name, problems in run.evaluation_sets().items():
        task = progress.add_task("evaluation", total=len(problems) * settings.samples, values=name)
        with undisturbed(run.config.seed):
            found = evaluate_accuracy(
                model,
                tokenizer,
                problems,
                source,
                samples=settings.samples,
                temperature=settings.temperature,
                max_new_tokens=longest,
                batch_size=settings.batch_size,
                seed=run.config.seed,
                progress=partial(_advance, progress, task),
            )
        progress.update(task, values=f"{name}: accuracy {found.accuracy:.3f}", visible=stage != "rl")
        lines.append(
            {
                "step": step,
                "stage": stage,
                "set": name,
                "accuracy": found.accuracy,
                "correct": found.correct,
                "count": found.count,
            }
        )
    append_lines(run.folder.evaluation, lines)


def _advance(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done)
