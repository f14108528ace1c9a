"""What `geoalign train` tells a curator about each rollout beyond what the trainer knows: only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.rewards.base import response_text
from geoalign.lab.rewards.corruption import RewardWithCorruption
from geoalign.lab.train.references import FIELD as REFERENCE_REWARDS
from geoalign.lab.train.references import reference_rewards
from geoalign.lab.train.run import Run

RolloutField = Callable[[list[dict[str, Any]]], Sequence[Any]]


def rollout_fields(run: Run, reward: RewardWithCorruption) -> dict[str, RolloutField]:
    """The adapter's `rollout_fields`: true rewards always (the records want them), others where the curator needs them.

    `answers` are the task's final answers; `reference_rewards` are those of the reference stage.

    A call raises RunFolderError where reference rewards are needed and not there.
    """
    fields: dict[str, RolloutField] = {"true_rewards": lambda rows: reward.true_rewards}
    needs = run.curator.requires
    if "answers" in needs or ("answers" in run.curator.optional and _has_answers(run)):
        fields["answers"] = lambda rows: [run.task.final_answer(response_text(row["completion"])) for row in rows]
    if REFERENCE_REWARDS in needs:
        # Read when first needed: with vLLM they are made when the trainer has started it.
        known = cache(lambda: reference_rewards(run))
        fields[REFERENCE_REWARDS] = lambda rows: [known()[row["problem_id"]] for row in rows]
    return fields


def _has_answers(run: Run) -> bool:
    try:
        run.task.final_answer("")
    except ConfigError:
        return False
    return True
