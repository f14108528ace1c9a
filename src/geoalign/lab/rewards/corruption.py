"""Deliberate corruption of rewards that hits the same draws in every arm of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from geoalign.answers.calls import function_name
from geoalign.answers.messages import response_text
from geoalign.answers.reward_source import RewardSource
from geoalign.errors import ConfigError, InputError
from geoalign.lab.rewards.settings import RewardConfig

Gather = Callable[[list[Any]], list[Any]]


def check_corruption(config: RewardConfig, *, binary: bool) -> None:
    """Raises ConfigError where a share is set that rewards of this kind do not know; the message names the key."""
    if config.flip > 0 and not binary:
        raise ConfigError(
            f"reward.flip: expected 0, because this task's reward is continuous and has no opposite value, got "
            f"{config.flip}; use reward.extremes"
        )
    if config.extremes > 0 and binary:
        raise ConfigError(
            f"reward.extremes: expected 0, because this task's reward is 0 or 1, got {config.extremes}; use reward.flip"
        )


class RewardWithCorruption:
    """A reward function for TRL that scores responses and corrupts the rewards of a share of the rollouts.

    - `flip` (binary): 0 becomes 1, 1 becomes 0.
    - `extremes` (continuous): a reward below its group's mean becomes the group's maximum, any other its minimum, both
      of the clean rewards; moved beyond by half to the whole of `jitter` times the group's spread, because one exactly
      on the extreme would be in fewer strict pairs than its fellows.
    - `shortcut`, afterwards: a response that takes it gets 1, or the maximum of the group's clean rewards.

    A NaN reward stays NaN and is in no statistic. `true_rewards` are the clean ones of the last call; `corrupted` says
    whose reward really differs from it. `gather` gives the lists of all processes in order of rank as one, because a
    group may stand on two of them.
    """

    def __init__(
        self,
        source: RewardSource,
        config: RewardConfig,
        *,
        seed: int,
        num_generations: int,
        process_index: int = 0,
        takes_shortcut: Callable[[str], bool] | None = None,
        gather: Gather = list,
    ) -> None:
        check_corruption(config, binary=source.binary)
        self.__name__ = function_name(source)
        self._source = source
        self._config = config
        self._seed = seed
        self._num_generations = num_generations
        self._process_index = process_index
        self._takes_shortcut = takes_shortcut
        self._gather = gather
        self.true_rewards: list[float] = []
        self.corrupted: list[bool] = []

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        answer: Sequence[str],
        problem_id: Sequence[str],
        trainer_state: Any = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **_: Any,
    ) -> list[float]:
        """The rewards of this process's rows, corrupted; the step is `trainer_state.global_step` (0 without)."""
        responses = [response_text(completion) for completion in completions]
        clean = list(self._source.score(responses, answer, prompts=prompts))
        # TRL gives every process an equal slice of the batch, in order.
        first_row = self._process_index * len(clean)
        draws = Draws(
            seed=self._seed,
            step=0 if trainer_state is None else int(trainer_state.global_step),
            prompt_ids=problem_id,
            samples=[(first_row + row) % self._num_generations for row in range(len(clean))],
        )
        rate = self._config.flip if self._source.binary else self._config.extremes
        noisy = draws.of_each_prompt(rate, self._num_generations) if self._config.fixed_share else draws.below(rate)
        shortcut = self._rewarded_shortcuts(draws, responses)
        rewards = clean
        if self._source.binary:
            rewards = [
                _binary(reward, flipped=noisy[row], shortcut=shortcut[row], row=row) for row, reward in enumerate(clean)
            ]
        elif self._config.extremes or self._config.shortcut:
            groups = self._groups(clean, first_row)
            # Different in each row, and never nothing unless `jitter` is 0.
            jitter = [self._config.jitter * (0.5 + draw / 2) for draw in draws.numbers("jitter/")]
            rewards = [
                _continuous(reward, groups[row], jitter=jitter[row], extreme=noisy[row], shortcut=shortcut[row])
                for row, reward in enumerate(clean)
            ]
        self.true_rewards = clean
        self.corrupted = [
            not math.isnan(before) and after != before for after, before in zip(rewards, clean, strict=True)
        ]
        if log_extra is not None:
            log_extra("true_reward", list(clean))
            log_extra("corrupted", list(self.corrupted))
        return list(rewards)

    def _rewarded_shortcuts(self, draws: Draws, responses: Sequence[str]) -> list[bool]:
        """Whether each row's response takes the task's shortcut and is drawn to be rewarded for it."""
        takes_shortcut = self._takes_shortcut
        if takes_shortcut is None:
            return [False] * len(responses)
        drawn = draws.below(self._config.shortcut, "shortcut/")
        return [lot and takes_shortcut(response) for lot, response in zip(drawn, responses, strict=True)]

    def _groups(self, clean: list[float], first_row: int) -> list[list[float]]:
        """The clean rewards of each of this process's rows' groups; those that could not be scored left out."""
        size = self._num_generations
        whole = self._gather(clean)
        scored = [
            [reward for reward in whole[start : start + size] if not math.isnan(reward)]
            for start in range(0, len(whole), size)
        ]
        return [scored[(first_row + row) // size] for row in range(len(clean))]


def _binary(reward: float, *, flipped: bool, shortcut: bool, row: int) -> float:
    """A reward of 0 or 1 as it is after flipping and the shortcut; NaN stays NaN."""
    if math.isnan(reward):
        return reward
    if flipped and reward not in (0.0, 1.0):
        raise InputError(f"rewards: expected 0 or 1 to flip, got {reward} in row {row}")
    if shortcut:
        return 1.0
    return 1.0 - reward if flipped else reward


def _continuous(reward: float, group: Sequence[float], *, jitter: float, extreme: bool, shortcut: bool) -> float:
    """A continuous reward as it is after `extremes` and the shortcut; NaN stays NaN.

    Args:
        group: the clean rewards of its group.
        jitter: how far beyond the group's extreme a corrupted reward lies, as a share of the group's spread.
    """
    if math.isnan(reward) or not (extreme or shortcut):
        return reward
    lowest = min(group)
    highest = max(group)
    if shortcut and reward == highest:
        return reward
    # A group of equal rewards has no spread: either way they stay what they are.
    if shortcut or reward < math.fsum(group) / len(group):
        return _beyond(highest, jitter * (highest - lowest))
    return _beyond(lowest, -jitter * (highest - lowest))


def _beyond(extreme: float, distance: float) -> float:
    """`extreme` moved by `distance`, at least so far that float32 can tell; exactly `extreme` for a distance of 0."""
    if distance == 0:
        return extreme
    start = np.float32(extreme)
    moved = np.float32(extreme + distance)
    if moved == start:
        moved = np.nextafter(start, np.float32(math.copysign(math.inf, distance)))
    return float(moved)


@dataclass(frozen=True)
class Draws:
    """Numbers in [0, 1) for the rollouts of a step, by seed, step, prompt and sample alone: the same in every arm of a
    comparison, on every machine, and for any slice of the rows.

    Draws of different purposes are independent of one another.
    """

    seed: int
    step: int
    prompt_ids: Sequence[str]
    samples: Sequence[int]

    def numbers(self, purpose: str = "") -> list[float]:
        """A number for each rollout."""
        return [
            self._number(prompt, sample, purpose) for prompt, sample in zip(self.prompt_ids, self.samples, strict=True)
        ]

    def below(self, rate: float, purpose: str = "") -> list[bool]:
        """Whether each rollout is drawn, with probability `rate` each; a larger rate draws all that a smaller does."""
        return [number < rate for number in self.numbers(purpose)]

    def of_each_prompt(self, rate: float, group_size: int) -> list[bool]:
        """Whether each rollout is drawn where every prompt's share is fixed: of K samples those with the smallest
        numbers are, floor(rate K + u), where u is a number of the prompt's."""
        drawn: dict[str, set[int]] = {}
        for prompt in dict.fromkeys(self.prompt_ids):
            numbers = [self._number(prompt, sample, "") for sample in range(group_size)]
            # Products such as 0.1 x 30 fall short of whole numbers by rounding alone.
            count = int(rate * group_size + self._number(prompt, 0, "share/") + 1e-9)
            by_number = sorted(range(group_size), key=numbers.__getitem__)
            drawn[prompt] = set(by_number[:count])
        return [sample in drawn[prompt] for prompt, sample in zip(self.prompt_ids, self.samples, strict=True)]

    def _number(self, prompt_id: str, sample: int, purpose: str) -> float:
        # The purpose and the numbers come first, so that no two different keys are written alike; "surrogatepass": ids
        # are any text.
        key = f"{purpose}{self.seed}/{self.step}/{sample}/{prompt_id}".encode("utf-8", errors="surrogatepass")
        return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") / 2**64
