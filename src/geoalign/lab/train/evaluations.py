"""Evaluations of a run before RL, every few steps and after it; and the rewards of reference responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress

from geoalign.answers.reward_source import RewardSource
from geoalign.console.terminal import Console, say, stage_progress
from geoalign.files.json_files import append_lines, read_lines, write_json
from geoalign.lab.data.task import EvaluationSet, Problem
from geoalign.lab.models.accuracy import evaluation_values
from geoalign.lab.models.answering import Sampling, answer_together, requests_of
from geoalign.lab.models.engines import Engine, TrainerEngine, TransformersEngine
from geoalign.lab.models.language_model import load_saved
from geoalign.lab.models.process_setup import with_own_seed
from geoalign.lab.models.rows import ResponseRow, write_rows
from geoalign.lab.runs.decline import REMEDY, falls_of_accuracy
from geoalign.lab.runs.folder import RunFolder, note_records
from geoalign.lab.runs.reading import parse_evaluation
from geoalign.lab.train.observed_reward import REFERENCE_REWARDS, open_reward_model, reference_rewards
from geoalign.lab.train.plan import Plan


@dataclass(frozen=True)
class Respondent:
    """What answers problems: an engine, the tokenizer of its model, and the source that scores the answers."""

    engine: Engine
    tokenizer: Any
    source: RewardSource


def saved_respondent(plan: Plan, source: RewardSource, folder: Path) -> Respondent:
    """A model of the run, read from its folder onto the device of training."""
    model, tokenizer = load_saved(folder, plan.config.model)
    if plan.grpo.bf16 and plan.grpo.device.type == "cpu":
        model = model.to(torch.bfloat16)  # no copy of the weights at every token
    return Respondent(TransformersEngine(model.to(plan.grpo.device), tokenizer), tokenizer, source)


def answers_to(
    evaluation_set: EvaluationSet,
    plan: Plan,
    respondent: Respondent,
    sampling: Sampling,
    *,
    model: str,
    batch_size: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[ResponseRow]:
    """Scored responses to a set, of all processes together; leaves every random generator as it was.

    Args:
        model: what the rows call the model.
        batch_size: responses generated at a time; None: all.
    """
    requests = requests_of(evaluation_set, respondent.tokenizer, plan.config.model.chat_template_kwargs)
    with with_own_seed(plan.config.seed):
        return answer_together(
            respondent.engine,
            requests,
            respondent.source,
            model=model,
            evaluation_set=evaluation_set,
            sampling=sampling,
            processes=plan.processes,
            max_unscored=plan.config.reward.max_unscored,
            batch_size=batch_size,
            progress=progress,
        )


def evaluation_stage(plan: Plan, source: RewardSource, model_folder: Path, stage: str, step: int) -> None:
    """Evaluates a saved model before or after RL, unless its lines are there."""
    if is_stage_evaluated(plan.folder, stage):
        return
    respondent = saved_respondent(plan, source, model_folder)
    with stage_progress(plan.console) as progress:
        evaluate_policy(plan, respondent, stage=stage, step=step, progress=progress)


def evaluation_sets(plan: Plan, source: RewardSource, stage: str) -> list[EvaluationSet]:
    """The sets of the evaluations at a stage ("before_rl", "rl" or "after_rl"), which may ask for more samples last."""
    settings = plan.config.evaluation
    return [
        EvaluationSet(
            name=name,
            kind="benchmark" if source.binary else "dialogue",
            problems=problems,
            samples=settings.samples_of(name, last=stage == "after_rl"),
            max_new_tokens=settings.max_new_tokens or plan.generation.longest,
        )
        for name, problems in plan.evaluation_sets.items()
    ]


def evaluate_policy(plan: Plan, respondent: Respondent, *, stage: str, step: int, progress: Progress) -> None:
    """Evaluates the model of a step on every set.

    The rows of the responses go into a file of the step (where the run keeps rollouts), their numbers into
    `evaluation.jsonl`: one line a set, all in one write.
    """
    settings = plan.config.evaluation
    # An engine of the trainer schedules the responses itself.
    batch_size = None if isinstance(respondent.engine, TrainerEngine) else settings.batch_size
    rows: list[ResponseRow] = []
    lines = []
    for evaluation_set in evaluation_sets(plan, respondent.source, stage):
        name = evaluation_set.name
        total = len(evaluation_set.problems) * evaluation_set.samples
        task = progress.add_task("evaluation", total=total, values=name)
        of_set = answers_to(
            evaluation_set,
            plan,
            respondent,
            Sampling(seed=plan.config.seed, stream=f"{stage}/{step}/{name}", temperature=settings.temperature),
            model=f"step-{step:06d}",
            batch_size=batch_size,
            progress=lambda done, task=task: progress.update(task, completed=done),  # type: ignore[misc]
        )
        rows += of_set
        values = evaluation_values(evaluation_set, of_set, _gold_utilities(plan, evaluation_set, of_set))
        known = [key for key in ("accuracy", "reward", "gold_utility") if values[key] is not None]
        shown = ", ".join(f"{key} {values[key]:.3f}" for key in known)
        progress.update(task, values=f"{name}: {shown}", visible=stage != "rl")
        lines.append({"step": step, "stage": stage, "set": name, **values})
    if plan.processes.is_main:
        earlier = read_lines(plan.folder.evaluation)
        if plan.config.output.rollouts:
            write_rows(plan.folder.responses_of(step), rows)
        append_lines(plan.folder.evaluation, lines)
        warn_of_falls(plan.console, earlier, lines)
        if stage != "rl":  # a checkpoint follows on those within RL
            note_records(plan.folder, "done" if plan.folder.final.is_dir() else "rl", step)


def warn_of_falls(console: Console, earlier: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> None:
    """Says, of each set once in a run, that its accuracy has fallen below that before RL, and what to do."""
    before = [parse_evaluation(line) for line in earlier]
    after = [parse_evaluation(line) for line in now]
    known = {fall.set for fall in falls_of_accuracy(before)}
    new = [fall for fall in falls_of_accuracy([*before, *after]) if fall.set not in known]
    for fall in new:
        say(console, f"Warning: {fall}", "yellow")
    if new:
        say(console, REMEDY, "yellow")


def _gold_utilities(plan: Plan, evaluation_set: EvaluationSet, rows: Sequence[ResponseRow]) -> Sequence[float | None]:
    """[rows] what each response is truly worth: the gold model's score (asked by the first process), else the task's.

    None where the utility is unknown.
    """
    problems_by_id = {problem.id: problem for problem in evaluation_set.problems}
    problems = [problems_by_id[row.id] for row in rows]
    responses = [row.response for row in rows]
    if plan.gold_model is not None and plan.processes.is_main:
        with open_reward_model(plan, plan.folder.gold_model) as gold_model:
            prompts = [list(problem.prompt) for problem in problems]
            return gold_model.score(responses, [""] * len(rows), prompts=prompts)
    utility = plan.task.gold_utility
    if plan.gold_model is not None or utility is None:
        return [None] * len(rows)
    return [utility(problem, response) for problem, response in zip(problems, responses, strict=True)]


def is_stage_evaluated(folder: RunFolder, stage: str) -> bool:
    """Whether a stage has been evaluated: its lines are written at once, and a resumed run cuts half of them away."""
    return any(line.get("stage") == stage for line in read_lines(folder.evaluation))


def reference_stage(plan: Plan, source: RewardSource) -> None:
    """Fills `reference_rewards.json`, if the curator needs it, for all prompts of the run before RL, a batch at a time.

    What a response draws depends on the run's seed, its problem and its number alone: a killed stage reaches the same
    file.
    """
    if REFERENCE_REWARDS not in plan.curator.requires or not _batches_left(plan, reference_rewards(plan)):
        return
    respondent = saved_respondent(plan, source, plan.folder.warm_started)
    with stage_progress(plan.console) as progress:
        fill_references(plan, respondent, progress=progress)


def fill_references(plan: Plan, respondent: Respondent, *, progress: Progress) -> None:
    """Does what is left of the reference rewards, with an engine that has the weights of the starting model."""
    if REFERENCE_REWARDS not in plan.curator.requires:
        return
    rewards = dict(reference_rewards(plan))
    count = plan.config.reward.references
    bar = progress.add_task(
        "references", total=len(plan.prompts_used()) * count, values="", completed=len(rewards) * count
    )
    sampling = Sampling(seed=plan.config.seed, stream="references", temperature=float(plan.grpo.temperature))
    for batch in _batches_left(plan, rewards):
        references = EvaluationSet(
            name="references",
            kind="benchmark" if respondent.source.binary else "dialogue",
            problems=batch,
            samples=count,
            max_new_tokens=plan.generation.longest,
        )
        rows = answers_to(references, plan, respondent, sampling, model="warm_start")
        rewards |= {problem.id: [] for problem in batch}
        for row in rows:
            rewards[row.id].append(row.reward)  # NaN, of one not scored, is null in the file
        if plan.processes.is_main:
            write_json(plan.folder.references, {"rewards": rewards})
        progress.update(bar, completed=len(rewards) * count)
    plan.processes.barrier()


def _batches_left(plan: Plan, rewards: Mapping[str, Any]) -> list[list[Problem]]:
    """The batches of prompts that have no reference rewards yet, each of about as many responses as RL generates."""
    problems = plan.prompts_used()
    responses = plan.generation.prompts * plan.generation.samples
    size = max(1, responses // plan.config.reward.references)
    batches = [problems[start : start + size] for start in range(0, len(problems), size)]
    return [batch for batch in batches if any(problem.id not in rewards for problem in batch)]
