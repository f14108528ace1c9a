"""Deliberate corruption of rewards: flips that hit the same slots in every arm of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Protocol

from geoalign.errors import InputError
from geoalign.rewards.verified import response_text


class Scorer(Protocol):
    """Scores responses against gold answers, as `VerifiedReward` does."""

    def score(self, responses: Sequence[str], answers: Sequence[str]) -> list[float]: ...


def flip_mask(
    *, seed: int, step: int, prompt_ids: Sequence[str], sample_indices: Sequence[int], rate: float
) -> list[bool]:
    """Which rollouts have their reward flipped: an independent draw for each, True with probability `rate`.

    A pure function of (seed, step, prompt id, sample index): no generator, so that the model, the curator, the order of
    the rows and the number of processes change nothing. A larger rate flips all that a smaller one does, and more.

    Raises:
        InputError: `rate` is outside [0, 1], or the lengths differ.
    """
    if not 0 <= rate <= 1:
        raise InputError(f"rate: expected a share between 0 and 1, got {rate}")
    if len(prompt_ids) != len(sample_indices):
        raise InputError(f"sample_indices: expected {len(prompt_ids)} as prompt_ids, got {len(sample_indices)}")
    return [
        _uniform(seed, step, prompt_id, sample) < rate
        for prompt_id, sample in zip(prompt_ids, sample_indices, strict=True)
    ]


class RewardWithFlips:
    """A reward function for TRL that scores answers and flips the binary reward of a share of the rollouts.

    Needs the data set's columns `answer` and `problem_id`. With `flip` 0 it only scores. A NaN reward stays NaN.

    Attributes:
        true_rewards: the rewards of the last call before flipping, in the order of this process's rows.
        corrupted: which of them were flipped.

    Raises:
        InputError: `flip` outside [0, 1], or a number out of place.
    """

    def __init__(self, scorer: Scorer, *, flip: float, seed: int, num_generations: int, process_index: int = 0) -> None:
        if not 0 <= flip <= 1:
            raise InputError(f"flip: expected a share between 0 and 1, got {flip}")
        if num_generations < 1 or process_index < 0:
            raise InputError(
                f"num_generations, process_index: expected at least 1 and 0, got {num_generations} and {process_index}"
            )
        self.__name__ = getattr(scorer, "__name__", type(scorer).__name__)
        self._scorer = scorer
        self._flip = flip
        self._seed = seed
        self._num_generations = num_generations
        self._process_index = process_index
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
        """The rewards of this process's rows, flips included; the step is `trainer_state.global_step` (0 without).

        Raises:
            InputError: lengths differ, or a reward to flip is neither 0 nor 1.
        """
        true_rewards = self._scorer.score([response_text(completion) for completion in completions], answer)
        flips = flip_mask(
            seed=self._seed,
            step=0 if trainer_state is None else int(trainer_state.global_step),
            prompt_ids=problem_id,
            sample_indices=self._sample_indices(len(true_rewards)),
            rate=self._flip,
        )
        rewards = [
            _flipped(reward, row) if flip else reward
            for row, (reward, flip) in enumerate(zip(true_rewards, flips, strict=True))
        ]
        self.true_rewards = list(true_rewards)
        self.corrupted = [flip and not math.isnan(reward) for reward, flip in zip(true_rewards, flips, strict=True)]
        if log_extra is not None:
            log_extra("true_reward", list(self.true_rewards))
            log_extra("corrupted", list(self.corrupted))
        return rewards

    def _sample_indices(self, rows: int) -> list[int]:
        """The place of each row among its prompt's rows.

        TRL repeats each prompt `num_generations` times on end in the global batch, of which every process holds an
        equal slice in order; a group may begin in one process and end in the next.
        """
        first = self._process_index * rows
        return [(first + row) % self._num_generations for row in range(rows)]


def _uniform(seed: int, step: int, prompt_id: str, sample: int) -> float:
    """A number in [0, 1) from a hash of its arguments."""
    # Numbers first, so that no two different slots are written alike; "surrogatepass": ids are any text.
    slot = f"{seed}/{step}/{sample}/{prompt_id}".encode("utf-8", errors="surrogatepass")
    return int.from_bytes(blake2b(slot, digest_size=8).digest(), "big") / 2**64


def _flipped(reward: float, row: int) -> float:
    if math.isnan(reward):
        return reward
    if reward not in (0.0, 1.0):
        raise InputError(f"rewards: expected 0 or 1 to flip, got {reward} in row {row}")
    return 1.0 - reward
