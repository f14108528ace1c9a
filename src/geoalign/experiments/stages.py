"""The stages of a run, each skipped where the run folder shows that it is done: warm start, evaluations, RL."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID
from trl import GRPOConfig, SFTConfig

from geoalign.config.run import RunConfig
from geoalign.curators.base import Curator
from geoalign.evaluation.accuracy import evaluate_accuracy
from geoalign.experiments.recorder import Recorder
from geoalign.experiments.resume import evaluated
from geoalign.experiments.run_folder import RunFolder
from geoalign.rewards.corruption import RewardWithFlips
from geoalign.rewards.verified import VerifiedReward
from geoalign.tasks.base import Problem, Task
from geoalign.training.callbacks import MetricLines, PeriodicEvaluation, ProgressBar, stage_progress
from geoalign.training.checkpoints import CompleteCheckpoints, is_last, latest_complete
from geoalign.training.counted import CountedReward
from geoalign.training.files import append_line, append_lines, replace_folder
from geoalign.training.models import first_model, load_saved, save, weights_dtype
from geoalign.training.options import GenerationShape, PromptPlan
from geoalign.training.policy import Curating, train_policy
from geoalign.training.randomness import undisturbed
from geoalign.training.warm_start import warm_start


@dataclass(frozen=True)
class Run:
    """Everything that the stages of one run share."""

    config: RunConfig
    folder: RunFolder
    task: Task
    verified: VerifiedReward
    curator: Curator
    sft: SFTConfig | None
    grpo: GRPOConfig
    generation: GenerationShape
    plan: PromptPlan
    console: Console

    def evaluation_sets(self) -> dict[str, Sequence[Problem]]:
        """The problems kept aside by name, each set cut to `evaluation.problems`."""
        limit = self.config.evaluation.problems
        return {name: problems[:limit] for name, problems in self.task.evaluation_problems().items()}


def warm_start_stage(run: Run) -> None:
    """Makes the model that RL starts from, `checkpoints/warm_start`; nothing if it is there."""
    if run.folder.warm_started.is_dir():
        return
    config = run.config
    model, tokenizer = first_model(config.model, alphabet=run.task.alphabet(), seed=config.seed)
    demonstrations = run.task.demonstrations() if run.sft is not None else ()
    resume_from = latest_complete(run.folder.sft_checkpoints)
    if resume_from is not None and is_last(resume_from):
        model, tokenizer = load_saved(resume_from, dtype=weights_dtype(config.model))
    elif run.sft is not None and demonstrations:
        rows = [
            {"prompt": list(item.prompt), "completion": [{"role": "assistant", "content": item.completion}]}
            for item in demonstrations
        ]
        bar = ProgressBar(run.console, "warm start", {"loss": "loss", "token accuracy": "mean_token_accuracy"})
        callbacks = [
            MetricLines("sft", lambda line: append_line(run.folder.metrics, line)),
            CompleteCheckpoints(run.folder.sft_checkpoints, config.output.keep_checkpoints),
            bar,
        ]
        with bar:
            warm_start(model, tokenizer, rows, run.sft, callbacks=callbacks, resume_from=resume_from)
    elif run.sft is not None:
        run.console.print(f"No warm start: task {run.task.name} has no demonstrations.")
    _save_model(model, tokenizer, run.folder.warm_started)


def evaluation_stage(run: Run, model_folder: Path, stage: str, step: int) -> None:
    """Evaluates a saved model before or after RL, unless its lines are there."""
    if evaluated(run.folder, stage, len(run.evaluation_sets())):
        return
    model, tokenizer = load_saved(model_folder, dtype=weights_dtype(run.config.model))
    model = model.to(run.grpo.device)
    with stage_progress(run.console) as progress:
        evaluate(run, model, tokenizer, stage=stage, step=step, progress=progress)


def evaluate(run: Run, model: Any, tokenizer: Any, *, stage: str, step: int, progress: Progress) -> None:
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
                run.verified,
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


def policy_stage(run: Run) -> None:
    """Trains the warm-started model by GRPO with the curator into `checkpoints/final`; nothing if it is there."""
    if run.folder.final.is_dir():
        return
    dtype = weights_dtype(run.config.model)
    resume_from = latest_complete(run.folder.rl_checkpoints)
    if resume_from is not None and is_last(resume_from):
        model, tokenizer = load_saved(resume_from, dtype=dtype)
    else:
        model, tokenizer = load_saved(run.folder.warm_started, dtype=dtype)
        _train_policy(run, model, tokenizer, resume_from)
    _save_model(model, tokenizer, run.folder.final)


def _train_policy(run: Run, model: Any, tokenizer: Any, resume_from: Path | None) -> None:
    config, folder = run.config, run.folder
    reward = RewardWithFlips(
        run.verified,
        flip=config.reward.flip,
        seed=config.seed,
        num_generations=run.generation.samples,
        process_index=run.grpo.process_index,
    )
    bar = ProgressBar(run.console, "GRPO", {"reward": "reward", "replaced": "geoalign/replaced", "KL": "ppo_kl"})
    callbacks: list[Any] = [
        MetricLines("rl", lambda line: append_line(folder.metrics, line)),
        CompleteCheckpoints(folder.rl_checkpoints, config.output.keep_checkpoints),
        bar,
    ]
    if config.evaluation.every is not None:
        callbacks.append(
            PeriodicEvaluation(
                config.evaluation.every,
                lambda step, model: evaluate(run, model, tokenizer, stage="rl", step=step, progress=bar.progress),
            )
        )
    curating = Curating(
        curator=run.curator,
        hidden_position=config.hidden_position,
        hidden_source=config.hidden_source,
        rollout_fields={"true_rewards": lambda rows: reward.true_rewards},
        observer=Recorder(folder, corrupted=lambda: reward.corrupted, rollouts=config.output.rollouts),
        details_every=config.output.details_every or 0,
    )
    problems = run.task.train_problems()
    rows = [prompt_row(problems[place]) for place in run.plan.order]
    rewards = [CountedReward(reward, run.verified)]
    with bar:
        train_policy(model, tokenizer, rows, rewards, run.grpo, curating, callbacks=callbacks, resume_from=resume_from)


def prompt_row(problem: Problem) -> dict[str, Any]:
    """One row of TRL's training data: the prompt, and what the reward needs."""
    return {"prompt": list(problem.prompt), "answer": problem.answer, "problem_id": problem.id}


def _save_model(model: Any, tokenizer: Any, place: Path) -> None:
    written = place.with_name(place.name + ".tmp")
    if written.exists():
        shutil.rmtree(written)
    save(model, tokenizer, written)
    replace_folder(written, place)


def _advance(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done)
