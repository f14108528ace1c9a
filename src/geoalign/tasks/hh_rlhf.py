"""The task `hh_rlhf`: dialogues with a preferred and a rejected reply, from the user's own files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from geoalign.config.dialogue import HHRLHFConfig
from geoalign.errors import InputError
from geoalign.tasks.base import Demonstration, PreferencePair, Problem, Task
from geoalign.tasks.rows import read_rows

Messages = tuple[dict[str, str], ...]

_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}

# Why a row is left out, in the order in which it is looked at.
_REASONS = ("malformed", "identical", "empty", "different history", "repeated turn", "too long")


class HHRLHFTask(Task):
    """Preference pairs in the format of HH-RLHF, read from files in their order.

    The chosen replies are the demonstrations, the pairs are for the reward model, and the different prompts, each once
    in the order of its first appearance, are for RL. Rows that are no usable pair are skipped and counted
    (`on_bad_row: error`: refused), see `read_pair`; `notes()` says how many, and how many evaluation prompts are
    training prompts too. Gold utility, shortcut and final answers are unknown.

    Raises:
        ConfigError: a file is not there or of an unknown kind (when it is first read).
        InputError: a file holds something else than its name says, or no usable pair.
    """

    name = "hh_rlhf"

    def __init__(self, config: HHRLHFConfig) -> None:
        self._config = config

    def train_problems(self) -> Sequence[Problem]:
        return self._problems

    def evaluation_problems(self) -> Mapping[str, Sequence[Problem]]:
        return {name: _problems([loaded]) for name, loaded in self._evaluation.items()}

    def demonstrations(self) -> Sequence[Demonstration]:
        return [Demonstration(pair.prompt, pair.chosen) for loaded in self._train for pair in loaded.pairs]

    def preference_pairs(self) -> Sequence[PreferencePair]:
        return [pair for loaded in self._train for pair in loaded.pairs]

    def notes(self) -> Sequence[str]:
        files = [*self._train, *(self._rl or ()), *self._evaluation.values()]
        lines = [note for loaded in files if (note := loaded.note())]
        trained_on = {problem.prompt[-1]["content"] for problem in self._problems}
        for name, problems in self.evaluation_problems().items():
            shared = sum(problem.prompt[-1]["content"] in trained_on for problem in problems)
            if shared:
                lines.append(
                    f"evaluation set {name}: {shared} of {len(problems)} end in a turn that ends a training prompt"
                )
        return lines

    @cached_property
    def _train(self) -> list[_Loaded]:
        return [self._load(path) for path in _paths(self._config.train)]

    @cached_property
    def _rl(self) -> list[_Loaded] | None:
        return None if self._config.rl is None else [self._load(path) for path in _paths(self._config.rl)]

    @cached_property
    def _problems(self) -> list[Problem]:
        return _problems(self._train if self._rl is None else self._rl)

    @cached_property
    def _evaluation(self) -> dict[str, _Loaded]:
        return {name: self._load(path) for name, path in self._config.evaluation.items()}

    def _load(self, path: str) -> _Loaded:
        config, loaded = self._config, _Loaded(path)
        for place, row in read_rows(path):
            if config.limit is not None and len(loaded.pairs) == config.limit:
                break
            loaded.rows += 1
            pair, reason = read_pair(row)
            if pair is not None and config.max_characters is not None and _length(pair) > config.max_characters:
                pair, reason = None, "too long"
            if pair is not None:
                loaded.pairs.append(pair)
                loaded.places.append(place)
                continue
            if config.on_bad_row == "error" and reason != "too long":
                raise InputError(f"{path}, {place}: expected a usable pair of dialogues, got one that is {reason}")
            loaded.skipped[reason] += 1
        if not loaded.pairs:
            raise InputError(f"{path}: expected at least one usable pair of dialogues, got none in {loaded.rows} rows")
        return loaded


@dataclass
class _Loaded:
    path: str
    pairs: list[PreferencePair] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    rows: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def note(self) -> str:
        """What was left out and why; empty where everything was used."""
        parts = ", ".join(f"{self.skipped[reason]} {reason}" for reason in _REASONS if self.skipped[reason])
        return f"{self.path}: {self.skipped.total()} of {self.rows} rows left out: {parts}" if parts else ""


def read_dialogue(text: str) -> Messages | None:
    """The turns of a text that begins `\\n\\nHuman:`, as chat messages without outer spaces; None where it does not.

    The last turn has to be the assistant's; an earlier turn without text is None too.
    """
    before, *parts = _TURN.split(text)
    turns = tuple(
        {"role": _ROLES[speaker], "content": said.strip()}
        for speaker, said in zip(parts[::2], parts[1::2], strict=True)
    )
    if before or not turns or turns[0]["role"] != "user" or turns[-1]["role"] != "assistant":
        return None
    return turns if all(turn["content"] for turn in turns[:-1]) else None


def read_pair(row: Mapping[str, Any]) -> tuple[PreferencePair | None, str]:
    """The pair of a row, and "" or why it is none.

    "malformed": `chosen` or `rejected` is absent or no dialogue (`read_dialogue`); "identical": both say the same;
    "empty": a final reply without text; "different history": they part before the last turn; "repeated turn": one
    speaker twice in a row, which chat templates refuse.
    """
    texts = [row.get(name) for name in ("chosen", "rejected")]
    dialogues = [read_dialogue(text) if isinstance(text, str) else None for text in texts]
    if dialogues[0] is None or dialogues[1] is None:
        return None, "malformed"
    (*history, chosen), (*other, rejected) = dialogues[0], dialogues[1]
    if dialogues[0] == dialogues[1]:
        return None, "identical"
    if not chosen["content"] or not rejected["content"]:
        return None, "empty"
    if history != other:
        return None, "different history"
    if any(one["role"] == two["role"] for one, two in pairwise(dialogues[0])):
        return None, "repeated turn"
    return PreferencePair(tuple(history), chosen["content"], rejected["content"]), ""


def _problems(files: Sequence[_Loaded]) -> list[Problem]:
    """One problem for each different prompt, named by where it first stands; its answer is the chosen reply there."""
    found: dict[tuple[tuple[str, str], ...], Problem] = {}
    for loaded in files:
        for place, pair in zip(loaded.places, loaded.pairs, strict=True):
            key = tuple((turn["role"], turn["content"]) for turn in pair.prompt)
            found.setdefault(key, Problem(f"{loaded.path}, {place}", pair.prompt, pair.chosen))
    return list(found.values())


def _length(pair: PreferencePair) -> int:
    return sum(len(turn["content"]) for turn in pair.prompt) + max(len(pair.chosen), len(pair.rejected))


def _paths(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given
