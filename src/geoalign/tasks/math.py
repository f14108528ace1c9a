"""The task `math`: problems with gold answers from the user's own files."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from geoalign.config.tasks import MathConfig, MathSetConfig
from geoalign.errors import InputError
from geoalign.rewards.answers import final_answer
from geoalign.tasks.base import Demonstration, Problem, Task
from geoalign.tasks.rows import field_of, read_rows

_ROLES = ("system", "user", "assistant")

# An evaluation problem counts as a training problem if so many first letters and digits agree: texts of one problem
# often differ at the end.
_COMPARED_CHARACTERS = 150


class MathTask(Task):
    """Problems read from files in their order; answers are kept as strings.

    Rows without a usable prompt or answer are skipped and counted (`on_bad_row: error`: refused). Prompts that stand in
    a file twice are kept. `notes()` says how many were skipped or stand twice, and how many evaluation problems are
    training problems too.

    Raises:
        ConfigError: a file is not there or of an unknown kind (when it is first read).
        InputError: a file holds something else than its name says, or no usable row; the message has file, row, field.
    """

    name = "math"

    def __init__(self, config: MathConfig) -> None:
        self._config = config

    def train_problems(self) -> Sequence[Problem]:
        return self._train.problems

    def evaluation_problems(self) -> Mapping[str, Sequence[Problem]]:
        return {name: loaded.problems for name, loaded in self._evaluation.items()}

    def demonstrations(self) -> Sequence[Demonstration]:
        return self._train.demonstrations

    def final_answer(self, response: str) -> str | None:
        return final_answer(response)

    def notes(self) -> Sequence[str]:
        lines = [*self._train.notes()]
        trained_on = {_text(problem)[:_COMPARED_CHARACTERS] for problem in self._train.problems}
        for name, loaded in self._evaluation.items():
            lines += loaded.notes()
            shared = sum(_text(problem)[:_COMPARED_CHARACTERS] in trained_on for problem in loaded.problems)
            if shared:
                lines.append(f"evaluation set {name}: {shared} of {len(loaded.problems)} are training problems too")
        return lines

    @cached_property
    def _train(self) -> _Loaded:
        config = self._config
        fields = _Fields(
            config.prompt_field, config.answer_field, config.answer_pattern, config.id_field, config.demonstration_field
        )
        return self._load(config.train, fields, limit=config.limit)

    @cached_property
    def _evaluation(self) -> dict[str, _Loaded]:
        loaded = {}
        for name, given in self._config.evaluation.items():
            settings = given if isinstance(given, MathSetConfig) else MathSetConfig(path=given)
            loaded[name] = self._load(settings.path, _fields_of(settings, self._config), limit=None)
        return loaded

    def _load(self, path: str, fields: _Fields, *, limit: int | None) -> _Loaded:
        loaded = _Loaded(path, [], [], Counter())
        taken: set[str] = set()
        for place, row in read_rows(path):
            if limit is not None and len(loaded.problems) == limit:
                break
            try:
                problem = self._problem(place, row, fields)
            except _UnusableRowError as error:
                if self._config.on_bad_row == "error":
                    raise InputError(f"{path}, {place}, {error}") from error
                if not loaded.skipped:
                    loaded.first_skipped = f"{place}, {error}"
                loaded.skipped[error.reason] += 1
                continue
            if problem.id in taken:
                raise InputError(
                    f"{path}, {place}, field {fields.id}: expected a name of its own, got {problem.id!r} again"
                )
            taken.add(problem.id)
            loaded.problems.append(problem)
            _add_demonstration(loaded, problem, row, fields)
        if not loaded.problems:
            raise InputError(f"{path}: expected at least one usable row; {loaded.first_skipped or 'got no row at all'}")
        return loaded

    def _problem(self, place: str, row: Mapping[str, Any], fields: _Fields) -> Problem:
        prompt = _messages(row, fields.prompt)
        if self._config.system_prompt is not None and all(message["role"] != "system" for message in prompt):
            prompt = ({"role": "system", "content": self._config.system_prompt}, *prompt)
        answer = _answer(row, fields)
        if fields.id is None:
            return Problem(place, prompt, answer)
        name = field_of(row, fields.id)
        if not isinstance(name, str | int) or name == "":
            raise _UnusableRowError("id", fields.id, "a name", name, row)
        return Problem(str(name), prompt, answer)


@dataclass(frozen=True)
class _Fields:
    prompt: str
    answer: str
    answer_pattern: str | None
    id: str | None
    demonstration: str | None


@dataclass
class _Loaded:
    path: str
    problems: list[Problem]
    demonstrations: list[Demonstration]
    skipped: Counter[str]
    first_skipped: str = ""

    def notes(self) -> list[str]:
        lines = []
        if self.skipped:
            reasons = ", ".join(f"{count} without a usable {reason}" for reason, count in sorted(self.skipped.items()))
            lines.append(f"{self.path}: {self.skipped.total()} rows skipped ({reasons}); first: {self.first_skipped}")
        repeated = len(self.problems) - len({repr(problem.prompt) for problem in self.problems})
        if repeated:
            lines.append(f"{self.path}: {repeated} of {len(self.problems)} prompts stand there before")
        return lines


class _UnusableRowError(Exception):
    """A row without prompt, answer or name; becomes a count or an InputError."""

    def __init__(self, reason: str, name: str, expected: str, got: object, row: Mapping[str, Any]) -> None:
        shown = repr(got) if len(repr(got)) <= 80 else repr(got)[:77] + "..."
        known = f"; the row has {', '.join(map(str, row))}" if got is None else ""
        super().__init__(f"field {name}: expected {expected}, got {shown}{known}")
        self.reason = reason


def _fields_of(settings: MathSetConfig, train: MathConfig) -> _Fields:
    answer_field = settings.answer_field or train.answer_field
    inherited = train.answer_pattern if answer_field == train.answer_field else None
    return _Fields(
        prompt=settings.prompt_field or train.prompt_field,
        answer=answer_field,
        answer_pattern=settings.answer_pattern if settings.answer_pattern is not None else inherited,
        id=settings.id_field,
        demonstration=None,
    )


def _messages(row: Mapping[str, Any], name: str) -> tuple[dict[str, str], ...]:
    value = field_of(row, name)
    expected = "a text or a list of chat messages that ends with the user's"
    if isinstance(value, str) and value.strip():
        return ({"role": "user", "content": value},)
    if not isinstance(value, list) or not value:
        raise _UnusableRowError("prompt", name, expected, value, row)
    messages = []
    for message in value:
        role = message.get("role") if isinstance(message, Mapping) else None
        content = message.get("content") if isinstance(message, Mapping) else None
        if role not in _ROLES or not isinstance(content, str) or not content.strip():
            raise _UnusableRowError("prompt", name, expected, value, row)
        messages.append({"role": str(role), "content": content})
    if messages[-1]["role"] != "user":
        raise _UnusableRowError("prompt", name, expected, value, row)
    return tuple(messages)


def _answer(row: Mapping[str, Any], fields: _Fields) -> str:
    value = field_of(row, fields.answer)
    text = _answer_text(value)
    if not text:
        raise _UnusableRowError("answer", fields.answer, "a text or a number", value, row)
    if fields.answer_pattern is None:
        return text
    found = None
    for found in re.finditer(fields.answer_pattern, text):  # noqa: B007 - the last one counts
        pass
    if found is None or not (found[1] or "").strip():
        raise _UnusableRowError("answer", fields.answer, f"a match of {fields.answer_pattern!r}", value, row)
    return str(found[1]).strip()


def _answer_text(value: Any) -> str:
    """A gold answer as text; empty where it is none. A list (several answers) is joined with commas."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and value:
        parts = [_answer_text(part) if not isinstance(part, list) else "" for part in value]
        return ", ".join(parts) if all(parts) else ""
    return ""


def _add_demonstration(loaded: _Loaded, problem: Problem, row: Mapping[str, Any], fields: _Fields) -> None:
    if fields.demonstration is None:
        return
    value = field_of(row, fields.demonstration)
    if isinstance(value, str) and value.strip():
        loaded.demonstrations.append(Demonstration(problem.prompt, value))
    else:
        loaded.skipped["demonstration"] += 1


def _text(problem: Problem) -> str:
    """The problem's letters and digits, without case: what remains the same under another layout."""
    text = "".join(message["content"] for message in problem.prompt if message["role"] != "system")
    return "".join(character for character in text.lower() if character.isalnum())
