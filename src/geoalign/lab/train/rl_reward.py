"""What the RL stage asks about each rollout: its reward, and the fields that the curator needs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.models.processes import Processes
from geoalign.lab.rewards.base import RewardSource, check_scored, reasons, reasons_since, response_text
from geoalign.lab.rewards.corruption import RewardWithCorruption
from geoalign.lab.tasks.base import Task
from geoalign.lab.train.references import FIELD as REFERENCE_REWARDS
from geoalign.lab.train.references import reference_rewards
from geoalign.lab.train.run import Run


def corrupted_reward(run: Run, source: RewardSource) -> RewardWithCorruption:
    """The run's clean reward with the corruption that its settings ask for."""
    return RewardWithCorruption(
        source,
        run.reward,
        seed=run.seed,
        num_generations=run.generation.samples,
        process_index=run.grpo.process_index,
        takes_shortcut=run.task.takes_shortcut,
        gather=run.processes.gather if run.processes.count > 1 else None,
    )


class CountedReward:
    """Passes a call on to a corrupted reward and logs what only it knows, over the responses of this generation batch.

    `true_reward` is the mean of the clean rewards. Where the source has `counters`, `reward/<name>` is the number of
    responses that could not be scored or read: `no_answer`, `refused`, `timeouts`, `errors` of `VerifiedReward`.

    Args:
        max_unscored: raise UnscoredError where a larger share of the batch, of all processes, has no score.
    """

    def __init__(
        self,
        reward: RewardWithCorruption,
        source: RewardSource,
        processes: Processes,
        *,
        max_unscored: float,
    ) -> None:
        self.__name__ = reward.__name__
        self._reward = reward
        self._source = source
        self._processes = processes
        self._max_unscored = max_unscored

    def __call__(
        self, *args: Any, log_metric: Callable[[str, float], None] | None = None, **kwargs: Any
    ) -> list[float]:
        """The rewards of this process's rows."""
        before = reasons(self._source)
        rewards = self._reward(*args, **kwargs)
        unscored = reasons_since(self._source, before)
        self._check(unscored)
        if log_metric is not None:
            for name, number in unscored.items():
                # TRL logs the mean over the processes; these are counts of the whole batch.
                log_metric(f"reward/{name}", float(number) * self._processes.count)
            scored = [reward for reward in self._reward.true_rewards if not math.isnan(reward)]
            if scored:
                log_metric("true_reward", sum(scored) / len(scored))
        return rewards

    def _check(self, unscored: Mapping[str, int]) -> None:
        """Every process comes to the same verdict, so that none waits for one that has stopped."""
        whole: Counter[str] = Counter()
        for counts in self._processes.gather([dict(unscored)]):
            whole.update(counts)
        clean = self._processes.gather(list(self._reward.true_rewards))
        check_scored(clean, self._max_unscored, why=whole, what="a generation batch")


RolloutField = Callable[[list[dict[str, Any]]], Sequence[Any]]


def rollout_fields(run: Run, reward: RewardWithCorruption) -> dict[str, RolloutField]:
    """The adapter's `rollout_fields`: true rewards always (the records want them), others where the curator needs them.

    `answers` are the task's final answers; `reference_rewards` are those of the reference stage.

    A call raises RunFolderError where reference rewards are needed and not there.
    """
    fields: dict[str, RolloutField] = {"true_rewards": lambda rows: reward.true_rewards}
    needs = run.curator.requires
    if "answers" in needs or ("answers" in run.curator.optional and _has_answers(run.task)):
        fields["answers"] = lambda rows: [run.task.final_answer(response_text(row["completion"])) for row in rows]
    if REFERENCE_REWARDS in needs:
        # Read when first needed: with vLLM they are made when the trainer has started it.
        known = cache(lambda: reference_rewards(run))
        fields[REFERENCE_REWARDS] = lambda rows: [known()[row["problem_id"]] for row in rows]
    return fields


def _has_answers(task: Task) -> bool:
    try:
        task.final_answer("")
    except ConfigError:
        return False
    return True
