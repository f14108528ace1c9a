"""Deliberate corruption of rewards that hits the same slots in every arm of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from geoalign.errors import ConfigError, InputError, UnsupportedError
from geoalign.lab.config.rewards import RewardConfig
from geoalign.lab.rewards.base import RewardSource, response_text
from geoalign.lab.rewards.slots import corruption_mask, fixed_share_mask, uniform

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
    - `extremes` (continuous): a reward below its group's mean becomes the group's maximum, any other its minimum. Mean
      and extremes are those of the group's clean rewards.
    - `shortcut`: a response that takes the shortcut is rewarded: 1 where rewards are binary, else the maximum of the
      group's clean rewards; afterwards, so that it holds whatever the other two did.

    Which slots are drawn is a function of (seed, step, prompt id, sample index) alone: each independently, or with
    `fixed_share` (flips and extremes) just that share of every prompt's. Continuous values lie beyond the
    extreme by between half of and the whole `jitter` times the group's spread (at least one step of float32, in which
    trainers hold rewards): a corrupted reward exactly on the extreme would be in fewer strict pairs than its fellows,
    and could be recognised by that. A group whose clean rewards are all equal stays as it is, and so does a reward that
    already is the maximum it would get. A NaN reward stays NaN and is in no statistic.

    Needs the data set's columns `answer` and `problem_id`.

    Attributes:
        true_rewards: the clean rewards of the last call, in the order of this process's rows.
        corrupted: whose reward in the last call really differs from the clean one; drawn slots that change nothing
            (a shortcut to the right answer, a group of equal rewards) are not among them.

    Args:
        takes_shortcut: says whether a response takes the shortcut; needed where `shortcut` is not 0.
        gather: the lists of all processes in order of rank as one, on every process; needed with several processes
            where a group may stand on two of them and its extremes count.

    Raises:
        ConfigError: a share that rewards of this kind do not know.
        InputError: a number out of place, or a shortcut without a function that knows it.
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
        gather: Gather | None = None,
    ) -> None:
        check_corruption(config, binary=source.binary)
        if num_generations < 1 or process_index < 0:
            raise InputError(
                f"num_generations, process_index: expected at least 1 and 0, got {num_generations} and {process_index}"
            )
        if config.shortcut > 0 and takes_shortcut is None:
            raise InputError(f"takes_shortcut: expected a function, as shortcut is {config.shortcut}, got None")
        self.__name__ = getattr(source, "__name__", type(source).__name__)
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
        step = 0 if trainer_state is None else int(trainer_state.global_step)
        slots = _Slots(self._seed, step, problem_id, self._sample_indices(len(clean)))
        rewards = self._with_noise(clean, slots)
        rewards = self._with_shortcut(rewards, clean, responses, slots)
        self.true_rewards = clean
        self.corrupted = [
            not math.isnan(before) and after != before for after, before in zip(rewards, clean, strict=True)
        ]
        if log_extra is not None:
            log_extra("true_reward", list(clean))
            log_extra("corrupted", list(self.corrupted))
        return rewards

    def _with_noise(self, clean: list[float], slots: _Slots) -> list[float]:
        if self._source.binary:
            mask = self._noise(slots, self._config.flip)
            return [_flipped(reward, row) if mask[row] else reward for row, reward in enumerate(clean)]
        if self._config.extremes == 0:
            return list(clean)
        mask, groups = self._noise(slots, self._config.extremes), self._groups(clean)
        return [
            _opposite_extreme(reward, groups[row], self._config.jitter * slots.jitter(row)) if mask[row] else reward
            for row, reward in enumerate(clean)
        ]

    def _noise(self, slots: _Slots, rate: float) -> list[bool]:
        return slots.fixed_share(rate, self._num_generations) if self._config.fixed_share else slots.mask(rate)

    def _with_shortcut(
        self, rewards: list[float], clean: list[float], responses: Sequence[str], slots: _Slots
    ) -> list[float]:
        if self._config.shortcut == 0 or self._takes_shortcut is None:
            return rewards
        mask = slots.mask(self._config.shortcut, purpose="shortcut/")
        taken = [drawn and self._takes_shortcut(text) for drawn, text in zip(mask, responses, strict=True)]
        if self._source.binary:
            return [1.0 if taken[row] and not math.isnan(reward) else reward for row, reward in enumerate(rewards)]
        groups = self._groups(clean)
        return [
            _maximum(clean[row], groups[row], self._config.jitter * slots.jitter(row)) if taken[row] else reward
            for row, reward in enumerate(rewards)
        ]

    def _groups(self, clean: list[float]) -> list[_Group]:
        """The clean rewards of each of this process's rows' groups."""
        size, first = self._num_generations, self._process_index * len(clean)
        whole = clean
        if self._gather is not None:
            whole = self._gather(clean)
        elif first % size or len(clean) % size:
            raise UnsupportedError(
                f"reward.extremes, reward.shortcut: expected groups of {size} on one process each, got {len(clean)} "
                f"rows from row {first} on: a group stands on two processes; give RewardWithCorruption a gather"
            )
        else:
            first = 0
        groups = [_Group(whole[start : start + size]) for start in range(0, len(whole), size)]
        return [groups[(first + row) // size] for row in range(len(clean))]

    def _sample_indices(self, rows: int) -> list[int]:
        """The index of each row among its prompt's rows.

        TRL repeats each prompt `num_generations` times on end in the global batch, of which every process holds an
        equal slice in order; a group may begin in one process and end in the next.
        """
        first = self._process_index * rows
        return [(first + row) % self._num_generations for row in range(rows)]


class _Slots:
    """The draws of one call's rows."""

    def __init__(self, seed: int, step: int, prompt_ids: Sequence[str], samples: list[int]) -> None:
        if len(prompt_ids) != len(samples):
            raise InputError(f"problem_id: expected {len(samples)} as rewards, got {len(prompt_ids)}")
        self._where: dict[str, Any] = {"seed": seed, "step": step, "prompt_ids": prompt_ids, "sample_indices": samples}

    def mask(self, rate: float, *, purpose: str = "") -> list[bool]:
        return corruption_mask(**self._where, rate=rate, purpose=purpose)

    def fixed_share(self, rate: float, group_size: int) -> list[bool]:
        return fixed_share_mask(**self._where, rate=rate, group_size=group_size)

    def jitter(self, row: int) -> float:
        """A share in [0.5, 1): different in each slot, and never nothing."""
        seed, step, prompts, samples = self._where.values()
        draw = uniform(seed=seed, step=step, prompt_id=prompts[row], sample=samples[row], purpose="jitter/")
        return 0.5 + draw / 2


class _Group:
    """Mean and extremes of a group's clean rewards; NaN where none could be scored."""

    def __init__(self, rewards: Sequence[float]) -> None:
        scored = [reward for reward in rewards if not math.isnan(reward)]
        self.mean = math.fsum(scored) / len(scored) if scored else math.nan
        self.lowest = min(scored, default=math.nan)
        self.highest = max(scored, default=math.nan)


def _flipped(reward: float, row: int) -> float:
    if math.isnan(reward):
        return reward
    if reward not in (0.0, 1.0):
        raise InputError(f"rewards: expected 0 or 1 to flip, got {reward} in row {row}")
    return 1.0 - reward


def _opposite_extreme(reward: float, group: _Group, jitter: float) -> float:
    if math.isnan(reward):
        return reward
    # A group of equal rewards has no spread: either way they stay what they are.
    if reward < group.mean:
        return _beyond(group.highest, jitter * (group.highest - group.lowest))
    return _beyond(group.lowest, -jitter * (group.highest - group.lowest))


def _maximum(reward: float, group: _Group, jitter: float) -> float:
    if math.isnan(reward) or reward == group.highest:
        return reward
    return _beyond(group.highest, jitter * (group.highest - group.lowest))


def _beyond(extreme: float, distance: float) -> float:
    """`extreme` moved by `distance`, at least so far that float32 can tell; exactly `extreme` for a distance of 0."""
    if distance == 0:
        return extreme
    moved, start = np.float32(extreme + distance), np.float32(extreme)
    return float(moved if moved != start else np.nextafter(start, np.float32(math.copysign(math.inf, distance))))
