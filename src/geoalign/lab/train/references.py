"""Reference rewards: what responses of the starting model to each prompt of the run are worth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.progress import Progress

from geoalign.errors import RunFolderError
from geoalign.lab.evaluation.answers import Sampling, answer_together, prompts_of, slots_of
from geoalign.lab.generation.engine import Engine
from geoalign.lab.generation.transformers_engine import TransformersEngine
from geoalign.lab.models.models import load_saved, template_options
from geoalign.lab.models.process_setup import undisturbed
from geoalign.lab.progress import stage_progress
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.store.files import write_atomically
from geoalign.lab.store.json_files import read_json
from geoalign.lab.store.seals import SEAL, sealed, unsealed
from geoalign.lab.tasks.base import Problem
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
    model, tokenizer = load_saved(run.folder.warm_started, run.config.model)
    engine = TransformersEngine(model.to(run.grpo.device), tokenizer)
    with stage_progress(run.console) as progress:
        fill_references(run, source, engine, tokenizer, progress=progress)


def fill_references(run: Run, source: RewardSource, engine: Engine, tokenizer: Any, *, progress: Progress) -> None:
    """Does what is left of the reference rewards, with an engine that has the weights of the starting model."""
    if FIELD not in run.curator.requires:
        return
    settings = _settings(run)
    rewards = _kept(run, settings)
    count = run.config.reward.references
    total = len(run.prompts_used()) * count
    bar = progress.add_task("references", total=total, values="", completed=len(rewards) * count)
    for batch in _batches_left(run, rewards):
        rewards |= _batch_rewards(run, source, engine, tokenizer, batch)
        if run.processes.is_main:
            write_atomically(run.folder.references, _text(settings, rewards))
        progress.update(bar, completed=len(rewards) * count)
    run.processes.barrier()


def _batches_left(run: Run, rewards: Mapping[str, Any]) -> list[list[Problem]]:
    """The batches of prompts that have no reference rewards yet."""
    problems = run.prompts_used()
    size = max(1, run.generation.prompts * run.generation.samples // run.config.reward.references)
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


def _batch_rewards(
    run: Run, source: RewardSource, engine: Engine, tokenizer: Any, problems: Sequence[Problem]
) -> dict[str, list[float | None]]:
    prompts = prompts_of(problems, tokenizer, template_options(run.config.model))
    with undisturbed(run.config.seed):
        answers = answer_together(
            engine,
            slots_of(prompts, run.config.reward.references),
            source,
            Sampling(run.config.seed, "references", float(run.grpo.temperature), run.generation.longest),
            run.processes,
            max_unscored=run.config.reward.max_unscored,
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
        "seed": run.config.seed,
        "references": run.config.reward.references,
        "temperature": float(run.grpo.temperature),
        "max_new_tokens": run.generation.longest,
    }


def _kept(run: Run, settings: dict[str, Any]) -> dict[str, list[float | None]]:
    path = run.folder.references
    if not path.is_file():
        return {}
    found = read_json(path)
    if found.get("settings") != settings:
        raise RunFolderError(
            f"{path}: expected reference rewards made with {settings}, got {found.get('settings')}: remove the file"
        )
    rewards, count = found.get("rewards"), settings["references"]
    if not isinstance(rewards, dict) or not all(isinstance(of, list) and len(of) == count for of in rewards.values()):
        raise RunFolderError(f"{path}: expected rewards with lists of {count}, got something else: remove the file")
    if SEAL in found:  # versions of the package before this one wrote none
        try:
            unsealed(found, path)
        except RunFolderError as error:
            raise RunFolderError(f"{error}: remove the file; it is made again") from error
    return rewards


def _text(settings: dict[str, Any], rewards: dict[str, list[float | None]]) -> str:
    return json.dumps(sealed({"settings": settings, "rewards": rewards}), ensure_ascii=False, allow_nan=False) + "\n"
