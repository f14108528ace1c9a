"""The formats in which dumps of rollouts go round, and where each keeps what a rollout is made of."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.tasks.rows import field_of

# What a rollout can have, by the names of `--field`.
ROLES = {
    "prompt": "a text or chat messages",
    "system": "a system message before the prompt",
    "response": "a text or chat messages",
    "reward": "a number; a+b adds columns",
    "true_reward": "the reward before corruption",
    "correct": "whether the answer is right",
    "answer": "the gold answer",
    "final_answer": "the answer that the response gives",
    "group": "what rollouts of one prompt share",
    "id": "a name of the rollout",
    "step": "the training step",
    "tokens": "length of the response in tokens",
    "truncated": "whether it reached the length limit",
}
# Without these a row is no rollout, where the file has them at all.
NEEDED = ("prompt", "response", "reward", "group")


@dataclass(frozen=True)
class Format:
    """One kind of dump.

    Attributes:
        name: for `--format`.
        title: for people.
        fields: where each role stands; of several names the first that a file has.
        columns: what tells the format from others: a row that has all of them is of this kind.
        lists: one row holds a prompt and the list of its responses.
        rendered: prompts are the text that the model read, not bare questions.
        reward_may_lack: a row without the reward's key could not be scored.
        repeats: rollouts are written again, as another step, for every further update on them.
    """

    name: str
    title: str
    fields: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...] = ()
    lists: bool = False
    rendered: bool = False
    reward_may_lack: bool = False
    repeats: bool = False

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has all that tells this format from others."""
        if any(field_of(row, name) is None for name in self.columns):
            return False
        if self.name not in ("responses", "plain"):
            return True
        present = {role: value for role in NEEDED if (value := first_value(row, self.fields.get(role, ()))) is not None}
        if not {"response", "reward"} <= set(present) or not {"prompt", "group"} & set(present):
            return False
        return self.lists == all(isinstance(present[role], list) for role in ("response", "reward"))


GEOALIGN = Format(
    "geoalign",
    "rollouts of a GeoAlign run",
    {
        "prompt": ("prompt",),
        "response": ("response",),
        "reward": ("reward",),
        "true_reward": ("true_reward",),
        "group": ("group",),
        "id": ("row",),
        "step": ("step",),
        "tokens": ("tokens",),
    },
    columns=("step", "row", "group", "sample", "prompt", "response", "anomalous", "source", "weight"),
)
TRL = Format(
    "trl",
    "completions table of TRL",
    {
        "prompt": ("prompt",),
        "response": ("completion",),
        "reward": (),
        "true_reward": ("true_reward",),  # in tables of `geoalign train`
        "group": ("prompt",),
        "step": ("step",),
    },
    columns=("step", "prompt", "completion", "advantage"),
    rendered=True,
    repeats=True,
)
TRINITY = Format(
    "trinity",
    "experiences of Trinity-RFT",
    {
        "prompt": ("prompt_text",),
        "response": ("response_text",),
        "reward": ("reward",),
        "group": ("eid.task",),
        "id": ("eid.suffix",),
        "step": ("eid.batch",),
        "tokens": ("response_length",),
        "truncated": ("truncate_status",),
    },
    columns=("eid.batch", "eid.task", "prompt_text", "response_text"),
    rendered=True,
    reward_may_lack=True,
)
VERL = Format(
    "verl",
    "rollout dump of verl",
    {
        "prompt": ("input",),
        "response": ("output",),
        "reward": ("score",),
        "correct": ("acc",),
        "answer": ("gts",),
        "group": ("uid", "input"),
        "id": ("uid", "request_id"),
        "step": ("step",),
    },
    columns=("input", "output", "score", "step"),
    rendered=True,
)
RESPONSES = Format(
    "responses",
    "lists of responses, one prompt a row",
    {
        "prompt": ("query", "question", "problem", "prompt"),
        "system": ("system",),
        "response": ("response", "responses", "generations", "completions", "outputs"),
        "reward": ("pred_score", "rewards", "reward", "scores", "score", "correctness_math_verify"),
        "correct": ("score", "correct", "correctness_math_verify"),
        "answer": ("answer", "gt", "ground_truth"),
        "final_answer": ("pred",),
        "step": ("step",),
    },
    lists=True,
)
PLAIN = Format(
    "plain",
    "one rollout a row",
    {
        "prompt": ("prompt", "query", "question", "problem", "input"),
        "system": ("system",),
        "response": ("response", "completion", "output"),
        "reward": ("reward", "score"),
        "true_reward": ("true_reward",),
        "correct": ("correct",),
        "answer": ("answer", "ground_truth"),
        "final_answer": ("final_answer",),
        "group": ("group", "group_id", "prompt_id", "prompt", "query", "question", "problem", "input"),
        "id": ("id",),
        "step": ("step",),
        "tokens": ("tokens",),
        "truncated": ("truncated",),
    },
)
# The more particular first: of those that fit equally many rows the first is taken.
FORMATS: dict[str, Format] = {kind.name: kind for kind in (GEOALIGN, TRL, TRINITY, VERL, RESPONSES, PLAIN)}


@dataclass(frozen=True)
class Layout:
    """How one file is read: its format, and the name under which it has each role."""

    format: Format
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def rewards(self) -> tuple[str, ...]:
        """The names whose values add up to the reward."""
        return tuple(name.strip() for name in self.fields["reward"].split("+"))

    def __str__(self) -> str:
        named = ", ".join(f"{role} from {self.fields[role]}" for role in NEEDED if role in self.fields)
        return f"{self.format.title} ({named})"


def parse_fields(texts: Sequence[str]) -> dict[str, str]:
    """`--field ROLE=NAME`, NAME dotted where values are nested; an empty NAME leaves a role out.

    Raises:
        ConfigError: an unknown role (with the nearest known one), or one given twice.
    """
    fields: dict[str, str] = {}
    for text in texts:
        role, equals, name = text.partition("=")
        role = role.strip()
        if not equals or role not in ROLES:
            near = difflib.get_close_matches(role, ROLES, n=1)
            hint = f"{near[0]}, the nearest" if near else f"one of {', '.join(ROLES)}"
            raise ConfigError(f"--field: expected ROLE=NAME with a known role: {hint}; got {text!r}")
        if role in fields:
            raise ConfigError(f"--field {role}: expected once, got {fields[role]!r} and {name.strip()!r}")
        fields[role] = name.strip()
    return fields


def first_value(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first value that is there under one of the names; None where none is."""
    return next((value for name in names if (value := field_of(row, name)) is not None), None)
