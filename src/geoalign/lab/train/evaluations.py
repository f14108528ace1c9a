"""The evaluations of a run: before RL, every few steps, and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from geoalign.lab.evaluation.policy import Engine, EvaluatedResponse, EvaluationResult, evaluate_policy
from geoalign.lab.models.models import load_saved, template_options
from geoalign.lab.models.process_setup import undisturbed
from geoalign.lab.progress import stage_progress
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.rewards.limit import check_scored, reasons, reasons_since
from geoalign.lab.store.json_files import append_lines
from geoalign.lab.store.records import note_records
from geoalign.lab.tasks.base import Problem
from geoalign.lab.train.resume import drop_evaluation, evaluated
from geoalign.lab.train.run import Run

# Two processes never draw alike: seeds of runs are smaller than this.
_SEEDS_APART = 2**31


def evaluation_stage(run: Run, source: RewardSource, model_folder: Path, stage: str, step: int) -> None:
    """Evaluates a saved model before or after RL, unless its lines are there."""
    if evaluated(run.folder, stage, len(run.evaluation_sets())):
        return
    if run.processes.is_main:
        drop_evaluation(run.folder, stage)
    model, tokenizer = load_saved(model_folder, run.config.model)
    model = model.to(run.grpo.device)
    with stage_progress(run.console) as progress:
        evaluate(run, source, model, tokenizer, stage=stage, step=step, progress=progress)


def evaluate(
    run: Run,
    source: RewardSource,
    model: Any,
    tokenizer: Any,
    *,
    stage: str,
    step: int,
    progress: Progress,
    engine: Engine | None = None,
) -> None:
    """Appends one line per evaluation set, all in one write; leaves every random generator as it was.

    Several processes share the problems; what each draws depends on the seed and its rank. An `engine` of all of them
    (vLLM's) generates instead of the model, with draws of its own.
    """
    settings, processes = run.config.evaluation, run.processes
    lines = []
    for name, problems in run.evaluation_sets().items():
        samples = settings.samples_of(name, last=stage == "after_rl")
        share = processes.share(problems)
        # Where one engine answers all processes, each has to ask for as many.
        asked = share if engine is None else _padded(share, problems, math.ceil(len(problems) / processes.count))
        task = progress.add_task("evaluation", total=len(share) * samples, values=name)
        rows: list[EvaluatedResponse] = []
        before = reasons(source)
        with undisturbed(run.config.seed):
            if asked:
                found = evaluate_policy(
                    model,
                    tokenizer,
                    asked,
                    source,
                    samples=samples,
                    temperature=settings.temperature,
                    max_new_tokens=settings.max_new_tokens or run.generation.longest,
                    batch_size=settings.batch_size,
                    seed=run.config.seed + processes.rank * _SEEDS_APART,
                    template_options=template_options(run.config.model),
                    engine=engine,
                    gold_utility=run.task.gold_utility,
                    progress=partial(_advance, progress, task),
                )
                rows += found.rows[: len(share) * samples]
        found = EvaluationResult(source.binary, samples, _in_order(problems, processes.gather(rows)))
        check_scored(
            [row.reward for row in found.rows],
            run.config.reward.max_unscored,
            why=reasons_since(source, before),
            what=f"evaluation set {name}",
        )
        progress.update(task, values=f"{name}: {_shown(found)}", visible=stage != "rl")
        lines.append({"step": step, "stage": stage, "set": name, **evaluation_values(found)})
    if processes.is_main:
        append_lines(run.folder.evaluation, lines)
        if stage != "rl":  # a checkpoint follows on those within RL
            note_records(run.folder, "done" if run.folder.final.is_dir() else "rl", step)


def evaluation_values(found: EvaluationResult) -> dict[str, Any]:
    """The values of one line of `evaluation.jsonl`; None where there is no such value."""
    passed = found.pass_at_k()
    return {
        "accuracy": found.accuracy,
        "correct": found.correct,
        "count": found.count,
        "reward": found.reward,
        "gold_utility": found.gold_utility,
        "samples": found.samples,
        "pass_at_k": None if passed is None else {str(k): value for k, value in passed.items()},
    }


def _padded(share: list[Problem], problems: Sequence[Problem], size: int) -> list[Problem]:
    return [*share, *[problems[0]] * (size - len(share))]


def _in_order(problems: Sequence[Problem], rows: Sequence[EvaluatedResponse]) -> tuple[EvaluatedResponse, ...]:
    """By problem, then by sample, whichever process they come from."""
    place = {problem.id: number for number, problem in enumerate(problems)}
    return tuple(sorted(rows, key=lambda row: (place[row.problem_id], row.sample)))


def _shown(found: EvaluationResult) -> str:
    if found.accuracy is not None:
        return f"accuracy {found.accuracy:.3f}"
    values = {"reward": found.reward, "gold utility": found.gold_utility}
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items() if value is not None)


def _advance(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done)
