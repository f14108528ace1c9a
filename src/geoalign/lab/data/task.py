"""What a task gives to training and evaluation: problems, demonstrations, preference pairs, and their chat messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from geoalign.answers.messages import Messages


@dataclass(frozen=True)
class Problem:
    """A prompt, as chat messages ({"role": ..., "content": ...}), with its gold answer. `id` is unique in its set."""

    id: str
    prompt: Messages
    answer: str


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """A set of an evaluation: its problems, and how each of them is answered.

    Attributes:
        name: any text; the responses of the set are known by it, and nothing else follows from it.
        kind: "benchmark" where responses are right or wrong, "dialogue" where a reward model scores them, if any does.
        problems: in their order, each with an id of its own.
        samples: responses to each problem.
        max_new_tokens: longest response, in tokens.
    """

    name: str
    kind: Literal["benchmark", "dialogue"]
    problems: Sequence[Problem]
    samples: int
    max_new_tokens: int


@dataclass(frozen=True)
class Demonstration:
    """A prompt, as chat messages, with a response to imitate."""

    prompt: Messages
    completion: str


@dataclass(frozen=True)
class PreferencePair:
    """A prompt, as chat messages, with the response that was preferred and the one that was not."""

    prompt: Messages
    chosen: str
    rejected: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """Problems in a fixed order; the same settings and seed give the same problems.

    Attributes:
        evaluation_problems: the problems kept aside, by the name of their set.
        demonstrations: what the warm start imitates; without any there is no warm start.
        preference_pairs: what a reward model learns from; none where the reward needs no model.
        gold_pairs: what a second reward model learns from, whose score is the gold utility; no pair of the first.
        held_out_share: of the pairs of either model, those on which it is tested only.
        alphabet: every character of prompts and demonstrations; None where a byte-level tokenizer is needed.
        words: texts that are one token each beside the characters of the alphabet; the longest that fits counts.
        notes: what the person who runs it should see, such as how many rows of a file were left out, and why.
        takes_shortcut: whether a response takes the task's recognisable shortcut; None where there is none.
        final_answer: what a response answers, so that equal answers are equal texts; None where nothing has answers.
        gold_utility: what a response is truly worth, apart from the reward; None where that is unknown.
    """

    name: str
    train_problems: Sequence[Problem]
    evaluation_problems: Mapping[str, Sequence[Problem]]
    demonstrations: Sequence[Demonstration] = ()
    preference_pairs: Sequence[PreferencePair] = ()
    gold_pairs: Sequence[PreferencePair] = ()
    held_out_share: float = 0.1
    alphabet: str | None = None
    words: Sequence[str] = ()
    notes: Sequence[str] = ()
    takes_shortcut: Callable[[str], bool] | None = None
    final_answer: Callable[[str], str | None] | None = None
    gold_utility: Callable[[Problem, str], float] | None = None
