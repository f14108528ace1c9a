"""What a task gives to training and evaluation: problems with gold answers, and demonstrations for the warm start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geoalign.errors import ConfigError


@dataclass(frozen=True)
class Problem:
    """A prompt, as chat messages ({"role": ..., "content": ...}), with its gold answer. `id` is unique in its set."""

    id: str
    prompt: tuple[dict[str, str], ...]
    answer: str


@dataclass(frozen=True)
class Demonstration:
    """A prompt, as chat messages, with a response to imitate."""

    prompt: tuple[dict[str, str], ...]
    completion: str


@dataclass(frozen=True)
class PreferencePair:
    """A prompt, as chat messages, with the response that was preferred and the one that was not."""

    prompt: tuple[dict[str, str], ...]
    chosen: str
    rejected: str


class Task(ABC):
    """Problems in a fixed order; the same settings and seed give the same problems."""

    name: str
    # Of the pairs of a reward model, those on which it is tested only.
    held_out_share: float = 0.1

    @abstractmethod
    def train_problems(self) -> Sequence[Problem]:
        """The problems for RL, in their order."""

    @abstractmethod
    def evaluation_problems(self) -> Mapping[str, Sequence[Problem]]:
        """The problems kept aside, by the name of their set; empty where there are none."""

    def demonstrations(self) -> Sequence[Demonstration]:
        """What the warm start imitates; empty where the task has none (then there is no warm start)."""
        return ()

    def preference_pairs(self) -> Sequence[PreferencePair]:
        """What a reward model learns from; empty where the reward needs no model."""
        return ()

    def gold_pairs(self) -> Sequence[PreferencePair]:
        """What a second reward model learns from, whose score is the gold utility; no pair of `preference_pairs`."""
        return ()

    def alphabet(self) -> str | None:
        """Every character that prompts and demonstrations use; None where a byte-level tokenizer is needed."""
        return None

    def words(self) -> Sequence[str]:
        """Texts that are one token each beside the characters of the alphabet; the longest that fits counts."""
        return ()

    def notes(self) -> Sequence[str]:
        """Lines that the person who runs it should see, such as how many rows of a file were left out, and why."""
        return ()

    def takes_shortcut(self, response: str) -> bool:
        """Whether a response takes the task's recognisable shortcut, whatever its answer (`reward.shortcut`)."""
        raise ConfigError(f"reward.shortcut: expected a task with a recognisable shortcut, got {self.name}")

    def final_answer(self, response: str) -> str | None:
        """What a response answers, in one form, so that equal answers are equal texts; None where it gives none."""
        raise ConfigError(f"answers: expected a task whose responses have final answers, got {self.name}")

    def gold_utility(self, problem: Problem, response: str) -> float | None:
        """What a response is truly worth, where the task knows it apart from the reward; None where it does not."""
        return None
