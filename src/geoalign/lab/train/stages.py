"""The training stages of a run, each skipped where the run folder shows that it is done: warm start, RL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.lab.models.models import (
    initial_model,
    load_saved,
    lora_of,
    merged,
    merged_from,
    save_complete,
    template_options,
    with_adapters,
)
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.rewards.corruption import RewardWithCorruption
from geoalign.lab.store.json_files import append_line
from geoalign.lab.store.records import after_warm_start, note_records, records_of
from geoalign.lab.store.seals import is_last, latest_complete
from geoalign.lab.tasks.base import Demonstration, Problem
from geoalign.lab.train.callbacks import MetricLines, ProgressBar
from geoalign.lab.train.checkpoints import CompleteCheckpoints
from geoalign.lab.train.counted import CountedReward
from geoalign.lab.train.evaluations import InTraining
from geoalign.lab.train.policy import Curating, train_policy
from geoalign.lab.train.prompts import short_enough
from geoalign.lab.train.recorder import Recorder
from geoalign.lab.train.rollout_fields import rollout_fields
from geoalign.lab.train.run import Run
from geoalign.lab.train.warm_start import warm_start


def warm_start_stage(run: Run) -> None:
    """Makes the model that RL starts from, `checkpoints/warm_start`; nothing if it is there."""
    if run.folder.warm_started.is_dir():
        return
    run.processes.barrier()  # all have looked before one writes
    config = run.config
    model, tokenizer = initial_model(
        config.model, alphabet=run.task.alphabet(), words=run.task.words(), seed=config.seed
    )
    demonstrations, note = short_enough(
        run.task.demonstrations() if run.sft is not None else (),
        config.max_prompt_length,
        tokenizer,
        template_options(config.model),
        what="demonstrations",
    )
    if note is not None:
        run.console.print(note, markup=False)
    resume_from = latest_complete(run.folder.sft_checkpoints)
    if resume_from is not None and is_last(resume_from):
        model, tokenizer = _of_checkpoint(run, resume_from, model, tokenizer)
    elif run.sft is not None and demonstrations:
        model = with_adapters(model, lora_of(config.model), seed=config.seed)
        rows = [demonstration_row(item, template_options(config.model)) for item in demonstrations]
        bar = ProgressBar(run.console, "warm start", {"loss": "loss", "token accuracy": "mean_token_accuracy"})
        callbacks = [
            MetricLines("sft", lambda line: append_line(run.folder.metrics, line)),
            CompleteCheckpoints(
                run.folder.sft_checkpoints, config.output.keep_checkpoints, records_of(run.folder, "sft")
            ),
            bar,
        ]
        with bar:
            warm_start(model, tokenizer, rows, run.sft, callbacks=callbacks, resume_from=resume_from)
        model = merged(model)
    elif run.sft is not None:
        run.console.print(f"No warm start: task {run.task.name} has no demonstrations.")
    _save(run, model, tokenizer, run.folder.warm_started, after_warm_start(run.reward_model is not None))


def policy_stage(run: Run, source: RewardSource) -> None:
    """Trains the warm-started model by GRPO with the curator into `checkpoints/final`; nothing if it is there."""
    if run.folder.final.is_dir():
        return
    run.processes.barrier()  # all have looked before one writes
    resume_from = latest_complete(run.folder.rl_checkpoints)
    model, tokenizer = load_saved(run.folder.warm_started, run.config.model)
    if resume_from is not None and is_last(resume_from):
        model, tokenizer = _of_checkpoint(run, resume_from, model, tokenizer)
    else:
        model = with_adapters(model, lora_of(run.config.model), seed=run.config.seed)
        _train_policy(run, source, model, tokenizer, resume_from)
        model = merged(model)
    _save(run, model, tokenizer, run.folder.final, "done")


def _train_policy(run: Run, source: RewardSource, model: Any, tokenizer: Any, resume_from: Path | None) -> None:
    config, folder = run.config, run.folder
    reward = RewardWithCorruption(
        source,
        config.reward,
        seed=config.seed,
        num_generations=run.generation.samples,
        process_index=run.grpo.process_index,
        takes_shortcut=run.task.takes_shortcut,
        gather=run.processes.gather if run.processes.count > 1 else None,
    )
    bar = ProgressBar(run.console, "GRPO", {"reward": "reward", "replaced": "geoalign/replaced", "KL": "ppo_kl"})
    evaluations = InTraining(run, source, tokenizer, bar.progress)
    callbacks = [
        MetricLines("rl", lambda line: append_line(folder.metrics, line)),
        CompleteCheckpoints(folder.rl_checkpoints, config.output.keep_checkpoints, records_of(folder, "rl")),
        bar,
        evaluations,
    ]
    curating = Curating(
        curator=run.curator,
        hidden_position=config.hidden_position,
        hidden_source=config.hidden_source,
        rollout_fields=rollout_fields(run, reward),
        observer=Recorder(folder, rollouts=config.output.rollouts),
        details_every=config.output.details_every or 0,
    )
    rows = [prompt_row(run.problems[place]) for place in run.plan.order]
    rewards = [
        CountedReward(
            reward,
            source,
            processes=run.processes.count,
            max_unscored=config.reward.max_unscored,
            gather=run.processes.gather if run.processes.count > 1 else None,
        )
    ]
    with bar:
        train_policy(
            model,
            tokenizer,
            rows,
            rewards,
            run.grpo,
            curating,
            callbacks=callbacks,
            resume_from=resume_from,
            on_engine=evaluations.use,
        )


def _of_checkpoint(run: Run, checkpoint: Path, below: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Model and tokenizer of a stage's last checkpoint; one of adapters holds only these, on the model `below`."""
    if lora_of(run.config.model) is not None:
        return merged_from(below, checkpoint), tokenizer
    return load_saved(checkpoint, run.config.model)


def _save(run: Run, model: Any, tokenizer: Any, place: Path, then: str) -> None:
    """Saves a finished model; `then` is the stage that it begins."""
    if run.processes.is_main:
        save_complete(model, tokenizer, place)
        note_records(run.folder, then, 0)
    run.processes.barrier()


def demonstration_row(item: Demonstration, options: Mapping[str, Any]) -> dict[str, Any]:
    """One row of TRL's data for the warm start; `options` is what the chat template is told."""
    row: dict[str, Any] = {
        "prompt": list(item.prompt),
        "completion": [{"role": "assistant", "content": item.completion}],
    }
    return {**row, "chat_template_kwargs": dict(options)} if options else row


def prompt_row(problem: Problem) -> dict[str, Any]:
    """One row of TRL's training data: the prompt, and what the reward needs."""
    return {"prompt": list(problem.prompt), "answer": problem.answer, "problem_id": problem.id}
