"""Which reward a run learns from, and what the RL stage asks about each rollout."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from geoalign.answers import answers_by_class
from geoalign.answers.equivalence import EqualAnswers
from geoalign.answers.function import FunctionReward, RewardFunction
from geoalign.answers.messages import response_text
from geoalign.answers.reward_source import RewardSource, check_scored, reasons, reasons_since
from geoalign.answers.verified import VerifiedReward
from geoalign.answers.verifiers import verifier_kind, verifier_reward
from geoalign.files.json_files import read_json
from geoalign.lab.rewards.corruption import RewardWithCorruption
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.rewards.settings import RewardConfig
from geoalign.lab.train.plan import Plan

REFERENCE_REWARDS = "reference_rewards"
# Math-verify may take so long to compare the answers of a batch with each other: training waits for it.
_SECONDS_TO_COMPARE = 60.0


def reward_source(plan: Plan) -> AbstractContextManager[RewardSource]:
    """The clean reward of a run: a server's, a ready model's, that of the model it trains, or verified answers."""
    model = plan.config.reward.model
    if model.url is not None:
        from geoalign.lab.rewards.served_model import ServedRewardModel  # httpx2 only where there is a server

        return ServedRewardModel(model)
    if model.path is not None:
        return open_reward_model(plan, model.path)
    if plan.reward_model is not None:
        return open_reward_model(plan, plan.folder.reward_model)
    return VerifiedReward(timeout=plan.config.reward.timeout, workers=plan.config.reward.workers)


def open_reward_model(plan: Plan, path: Path | str) -> RewardModelScorer:
    """The scorer of a reward model, on the device of training unless the settings name one."""
    settings = plan.config.reward.model
    device = settings.device or str(plan.grpo.device)
    return RewardModelScorer.load(path, replace(settings, device=device))


ObservedReward = FunctionReward | RewardWithCorruption


def observed_reward(plan: Plan, source: RewardSource) -> ObservedReward:
    """What the user's function says (`reward.function`), else the task's own reward with the corruption asked for."""
    settings = plan.config.reward
    if settings.function is not None:
        return FunctionReward(verifier_reward(settings.function, settings.endpoint), source)
    return RewardWithCorruption(
        source,
        settings,
        seed=plan.config.seed,
        num_generations=plan.generation.samples,
        process_index=plan.grpo.process_index,
        takes_shortcut=plan.task.takes_shortcut,
        gather=plan.processes.gather,
    )


class CountedReward:
    """The observed reward as TRL calls it, with metrics over the responses of this generation batch.

    `true_reward` is the mean of the task's own rewards; `reward/<name>` counts the responses that reward or source
    could not score or read, by the names of their `counters`. UnscoredError where a larger share than
    `reward.max_unscored` of the batch, of all processes, has no score.
    """

    def __init__(self, plan: Plan, reward: ObservedReward, source: RewardSource) -> None:
        self.__name__ = reward.__name__
        self._plan = plan
        self._reward = reward
        self._source = source

    def __call__(
        self, *args: Any, log_metric: Callable[[str, float], None] | None = None, **kwargs: Any
    ) -> list[float]:
        """The rewards of this process's rows."""
        processes = self._plan.processes
        source_before = reasons(self._source)
        reward_before = reasons(self._reward)
        rewards = self._reward(*args, **kwargs)
        unscored = reasons_since(self._source, source_before) | reasons_since(self._reward, reward_before)

        # Every process comes to the same verdict, so that none waits for one that has stopped.
        unscored_in_all: Counter[str] = Counter()
        for counts in processes.gather([unscored]):
            unscored_in_all.update(counts)
        most = self._plan.config.reward.max_unscored
        check_scored(processes.gather(list(rewards)), most, why=unscored_in_all, what="a generation batch")

        if log_metric is not None:
            for name, number in unscored.items():
                # TRL logs the mean over the processes; these are counts of the whole batch.
                log_metric(f"reward/{name}", float(number) * processes.count)
            scored = [reward for reward in self._reward.true_rewards if not math.isnan(reward)]
            if scored:
                log_metric("true_reward", sum(scored) / len(scored))
        return rewards


# What a curator reads of each row that TRL has generated.
RolloutField = Callable[[list[dict[str, Any]]], Sequence[Any]]


def rollout_fields(plan: Plan, reward: ObservedReward, source: RewardSource) -> dict[str, RolloutField]:
    """The adapter's `rollout_fields`: true rewards always, others where the curator needs them."""
    fields: dict[str, RolloutField] = {"true_rewards": lambda rows: reward.true_rewards}
    needed = plan.curator.requires
    final_answer = plan.task.final_answer
    if final_answer is not None and ("answers" in needed or "answers" in plan.curator.optional):
        fields["answers"] = _answers(plan, final_answer, source)
    if REFERENCE_REWARDS in needed:
        # Read when first needed: with vLLM they are made when the trainer has started it.
        by_problem = cache(lambda: reference_rewards(plan))
        fields[REFERENCE_REWARDS] = lambda rows: [by_problem()[row["problem_id"]] for row in rows]
    return fields


def _answers(plan: Plan, final_answer: Callable[[str], str | None], source: RewardSource) -> RolloutField:
    """What each response answers; None without an answer.

    Where answers are verified, those of a prompt that math-verify calls equal become one spelling, over the rows of all
    processes.
    """

    def read(rows: list[dict[str, Any]]) -> list[str | None]:
        return [final_answer(response_text(row["completion"])) for row in rows]

    if not isinstance(source, VerifiedReward):
        return read
    equal = EqualAnswers(source.workers, most_seconds=_SECONDS_TO_COMPARE)

    def read_in_one_spelling(rows: list[dict[str, Any]]) -> list[str | None]:
        answers = read(rows)
        equal.renew()
        if any("problem_id" not in row for row in rows):
            # Labelled rollouts, which every process has whole.
            return answers_by_class(answers, [str(row["prompt"]) for row in rows], equal)
        own = [(row["problem_id"], answer) for row, answer in zip(rows, answers, strict=True)]
        of_all = plan.processes.gather(own)
        all_answers = [answer for _, answer in of_all]
        all_problems = [problem for problem, _ in of_all]
        same_spelling = answers_by_class(all_answers, all_problems, equal)
        # All processes have as many rows.
        first = plan.processes.rank * len(own)
        return same_spelling[first : first + len(own)]

    return read_in_one_spelling


def second_verifier(plan: Plan, source: RewardSource) -> str | RewardFunction | None:
    """What `appeals` asks: the verifier that `reward.second_verifier` names, else the task's own reward; None where the
    curator asks nothing."""
    if "second_rewards" not in plan.curator.reads:
        return None
    if plan.config.reward.second_verifier is not None:
        return plan.config.reward.second_verifier

    def own_reward(
        prompts: Sequence[Any], completions: Sequence[Any], answer: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        responses = [response_text(completion) for completion in completions]
        return list(source.score(responses, list(answer), prompts=list(prompts)))

    return own_reward


def second_verifier_endpoint(reward: RewardConfig) -> dict[str, Any]:
    """The section `reward.endpoint` where the second verifier is an address; else it is about `reward.function`."""
    asked = reward.second_verifier
    return dict(reward.endpoint) if asked is not None and verifier_kind(asked) == "endpoint" else {}


def reference_rewards(plan: Plan) -> dict[str, list[float | None]]:
    """The reference rewards made so far by problem id; None stands for a response that could not be scored."""
    path = plan.folder.references
    return read_json(path)["rewards"] if path.is_file() else {}
