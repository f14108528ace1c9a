"""Dumps of rollouts that say of every response whether it is right, beside the reward that it was given.

One rollout a row, or one prompt a row with lists of its responses, in any file that `geoalign.lab.tasks.rows` reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from geoalign.errors import ConfigError, InputError
from geoalign.lab.tasks.rows import check_dump_name, dump_rows, field_of, row_name

# Where each role stands; of several names the first that a row has.
ROLES: dict[str, tuple[str, ...]] = {
    "prompt": ("prompt", "query", "question", "problem"),
    "response": ("response", "completion", "output", "responses"),
    "reward": ("pred_score", "reward", "rewards"),
    "correct": ("correct", "score"),
    "group": ("group", "group_id"),
    "answer": ("final_answer", "pred"),
    "checks": ("passed",),
}
_NEEDED = ("prompt", "response", "reward", "correct")


@dataclass(frozen=True, eq=False)
class LabelledRollouts:
    """B rollouts, group after group in the order of the file.

    Attributes:
        prompts, responses: their texts.
        groups: [B] number of the prompt, from 0.
        rewards: [B] as given, without NaN.
        correct: [B] whether the response is right.
        answers: the final answers that the dump names; None where it names none.
        checks: outcome of every check of a response, one character each ("1": passed); None where there are none.
    """

    prompts: Sequence[str]
    responses: Sequence[str]
    groups: Int[np.ndarray, " b"]
    rewards: Float[np.ndarray, " b"]
    correct: Bool[np.ndarray, " b"]
    answers: Sequence[str | None] | None
    checks: Sequence[str] | None

    @property
    def mixed(self) -> list[int]:
        """The groups with right and wrong responses."""
        return [int(group) for group in np.unique(self.groups) if 0 < self.correct[self.groups == group].mean() < 1]


def parse_roles(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """`ROLES` with those named by `--field ROLE=NAME` in their place.

    Raises:
        ConfigError: an unknown role.
    """
    roles = dict(ROLES)
    for text in texts:
        role, _, name = text.partition("=")
        if role not in ROLES or not name:
            raise ConfigError(f"--field: expected ROLE=NAME, ROLE one of {', '.join(ROLES)}; got {text!r}")
        roles[role] = (name,)
    return roles


def read_labelled(path: Path, roles: Mapping[str, tuple[str, ...]] = ROLES) -> LabelledRollouts:
    """Reads a dump.

    Raises:
        ConfigError: no such file, or a name that is none of a dump.
        InputError: a row without a prompt, response, reward or verdict, lists of different lengths, or no row at all;
            the message has file, line and field.
    """
    check_dump_name(path)
    found: list[dict[str, Any]] = []
    for raw in dump_rows(path):
        where = row_name(path, raw.line)
        if raw.value is None:
            raise InputError(f"{where}: {raw.problem}")
        found += _rollouts(where, {role: _first(raw.value, names) for role, names in roles.items()}, raw.number)
    if not found:
        raise InputError(f"{path}: expected at least one rollout, got an empty file")
    numbers: dict[str, int] = {}
    for row in found:
        numbers.setdefault(row["group"], len(numbers))
    found.sort(key=lambda row: numbers[row["group"]])  # stable: the order of the file inside groups

    def column(name: str) -> list[Any]:
        return [row[name] for row in found]

    answers, checks = column("answer"), column("checks")
    return LabelledRollouts(
        prompts=column("prompt"),
        responses=column("response"),
        groups=np.array([numbers[name] for name in column("group")], dtype=np.int64),
        rewards=np.array(column("reward"), dtype=np.float64),
        correct=np.array(column("correct"), dtype=np.bool_),
        answers=answers if any(answer is not None for answer in answers) else None,
        checks=checks if all(isinstance(check, str) and check for check in checks) else None,
    )


def _rollouts(where: str, row: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The rollouts of one row: one, or one for each response of its list."""
    if not isinstance(row["response"], list):
        group = row["prompt"] if row["group"] is None else row["group"]
        yield _checked(where, {**row, "group": str(group)})
        return
    count = len(row["response"])
    for role in ("reward", "correct"):
        if not isinstance(row[role], list) or len(row[role]) != count:
            raise InputError(f"{where}: {role}: expected a list of {count} as the responses, got {row[role]!r:.60}")
    for index in range(count):
        listed = {
            role: value[index] if isinstance(value, list) and len(value) == count else value
            for role, value in row.items()
        }
        yield _checked(where, {**listed, "group": str(number)})


def _checked(where: str, row: dict[str, Any]) -> dict[str, Any]:
    reward = row["reward"]
    if isinstance(reward, list) and len(reward) == 1:
        reward = reward[0]  # as reward models with one head give it
    kinds: dict[str, Any] = {"prompt": str, "response": str, "correct": (bool, int)}
    for role in _NEEDED:
        value = reward if role == "reward" else row[role]
        good = isinstance(value, kinds[role]) if role in kinds else isinstance(value, (int, float)) and value == value
        if not good or (role == "correct" and value not in (0, 1)):
            expected = {"reward": "a number", "correct": "true or false"}.get(role, "a text")
            raise InputError(f"{where}: {role}: expected {expected}, got {value!r:.60}")
    answer = row["answer"]
    return {**row, "reward": float(reward), "correct": bool(row["correct"]), "answer": _text(answer)}


def _text(answer: Any) -> str | None:
    return None if answer is None or answer == "" else str(answer)


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((value for name in names if (value := field_of(row, name)) is not None), None)
