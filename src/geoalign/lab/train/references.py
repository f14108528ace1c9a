"""Reference rewards: what responses of the starting model to each prompt of the run are worth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.progress import Progress

from geoalign.errors import RunFolderError
from geoalign.lab.evaluation.answers import Sampling
from geoalign.lab.progress import stage_progress
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.store.files import write_atomically
from geoalign.lab.store.json_files import read_json
from geoalign.lab.tasks.base import Problem
from geoalign.lab.train.evaluations import Respondent, answers_to, saved_respondent
from geoalign.lab.train.run import Run

FIELD = "reference_rewards"


def reference_stage(run: Run, source: RewardSource) -> None:
    """Fills `reference_rewards.json`, if the curator needs it: `reward.references` clean rewards of each prompt used.

    All prompts that the run will use are done before RL: so no second model stays in memory, and RL draws what it would
    draw without this stage. A batch holds about as many responses as one generation of RL, shared by the processes, and
    is kept at once. What a response draws depends on the run's seed, its problem and its number alone: a killed stage
    continues with the next batch and reaches the same file.

    Raises:
        RunFolderError: the file there was made with other settings, or is no such file.
    """
    if FIELD not in run.curator.requires or not _batches_left(run, _kept(run, _settings(run))):
        return
    respondent = saved_respondent(run, source, run.folder.warm_started)
    with stage_progress(run.console) as progress:
        fill_references(run, respondent, progress=progress)


def fill_references(run: Run, respondent: Respondent, *, progress: Progress) -> None:
    """Does what is left of the reference rewards, with an engine that has the weights of the starting model."""
    if FIELD not in run.curator.requires:
        return
    settings = _settings(run)
    rewards = _kept(run, settings)
    count = run.reward.references
    total = len(run.prompts_used()) * count
    bar = progress.add_task("references", total=total, values="", completed=len(rewards) * count)
    for batch in _batches_left(run, rewards):
        rewards |= _batch_rewards(run, respondent, batch)
        if run.processes.is_main:
            _write(run, settings, rewards)
        progress.update(bar, completed=len(rewards) * count)
    run.processes.barrier()


def _batches_left(run: Run, rewards: Mapping[str, Any]) -> list[list[Problem]]:
    """The batches of prompts that have no reference rewards yet."""
    problems = run.prompts_used()
    size = max(1, run.generation.prompts * run.generation.samples // run.reward.references)
    batches = [problems[start : start + size] for start in range(0, len(problems), size)]
    return [batch for batch in batches if any(problem.id not in rewards for problem in batch)]


def reference_rewards(run: Run) -> dict[str, list[float | None]]:
    """The reference rewards of each problem id; None stands for a response that could not be scored.

    Raises:
        RunFolderError: they are not there, or not those of this run.
    """
    rewards = _kept(run, _settings(run))
    missing = [problem.id for problem in run.prompts_used() if problem.id not in rewards]
    if missing:
        raise RunFolderError(
            f"{run.folder.references}: expected reference rewards of every prompt of the run, got none of "
            f"{missing[0]!r} and {len(missing) - 1} others"
        )
    return rewards


def _batch_rewards(run: Run, respondent: Respondent, problems: Sequence[Problem]) -> dict[str, list[float | None]]:
    answers = answers_to(
        problems,
        run.reward.references,
        run,
        respondent,
        Sampling(run.seed, "references", float(run.grpo.temperature), run.generation.longest),
        what="a batch of reference responses",
    )
    rewards: dict[str, list[float | None]] = {problem.id: [] for problem in problems}
    for scored in answers:
        unscored = scored.reward is None or math.isnan(scored.reward)
        rewards[scored.prompt.problem.id].append(None if unscored else scored.reward)
    return rewards


def _settings(run: Run) -> dict[str, Any]:
    """What decides the rewards beside the warm start and the reward source, which the run folder fixes."""
    return {
        "seed": run.seed,
        "references": run.reward.references,
        "temperature": float(run.grpo.temperature),
        "max_new_tokens": run.generation.longest,
    }


def _kept(run: Run, settings: dict[str, Any]) -> dict[str, list[float | None]]:
    path = run.folder.references
    if not path.is_file():
        return {}
    content = read_json(path)
    if content.get("settings") != settings:
        raise RunFolderError(
            f"{path}: expected reference rewards made with {settings}, got {content.get('settings')}: remove the file"
        )
    rewards, count = content.get("rewards"), settings["references"]
    if not isinstance(rewards, dict) or not all(isinstance(of, list) and len(of) == count for of in rewards.values()):
        raise RunFolderError(f"{path}: expected rewards with lists of {count}, got something else: remove the file")
    return rewards


def _write(run: Run, settings: dict[str, Any], rewards: dict[str, list[float | None]]) -> None:
    content = {"settings": settings, "rewards": rewards}
    write_atomically(run.folder.references, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
