"""Conversations that were logged as `trackio.Trace`, in a project's database or in its tables of parquet.

After github.com/gradio-app/trackio at 2a02752: the table `traces` of trackio/sqlite_storage.py, whose `messages` and
`metadata` are JSON. What a reward is called there is the user's choice, as all of `metadata`.
"""

from __future__ import annotations

import json
from typing import Any

from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS, GROUPS, PROBLEM_IDS
from geoalign.dumps.formats.format import Format, Row
from geoalign.dumps.formats.turns import as_messages, as_one_text, role_and_text
from geoalign.dumps.values import BadValueError, described

# The key of the flagged rollouts that our adapter for TRL logs. An audit of these alone would find most rewards wrong.
FLAGGED = "geoalign/flagged"


def flatten(row: Row) -> Row:
    """A trace: the messages up to the model's first turn are the prompt, the others the response."""
    if row.get("key") == FLAGGED:
        raise BadValueError("key", "a rollout that was not chosen for its flag", FLAGGED)
    messages = _parsed("messages", row.get("messages"), list)
    roles = [message.get("role") for message in messages]
    if "assistant" not in roles:
        raise BadValueError("messages", "a message of the assistant", f"{len(messages)} without one")
    first_turn = roles.index("assistant")
    turns = [role_and_text(message) for message in messages]
    metadata = _parsed("metadata", row.get("metadata"), dict)
    return {
        "id": row.get("id"),
        "step": row.get("step"),
        "key": row.get("key"),
        "prompt": as_messages(turns[:first_turn]),
        "response": as_one_text(turns[first_turn:]),
        # The word stands for the number, which JSON does not have.
        "metadata": {name: None if value == "NaN" else value for name, value in metadata.items()},
    }


def _parsed(field: str, value: Any, kind: type) -> Any:
    """What a text of JSON holds, a list or an object as `kind` says; BadValueError for anything else."""
    try:
        parsed = json.loads(value) if isinstance(value, (str, bytes)) else value
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, kind):
        raise BadValueError(field, f"JSON with {'a list' if kind is list else 'an object'}", described(value))
    return parsed


def _in_metadata(*names: str) -> tuple[str, ...]:
    return tuple(f"metadata.{name}" for name in names if not name.startswith(("info.", "extra_info.", "meta")))


TRACKIO = Format(
    name="trackio",
    title="traces of trackio",
    columns=("run_name", "step", "key", "messages", "metadata"),
    flatten=flatten,
    fields={
        "prompt": ("prompt",),
        "response": ("response",),
        "reward": _in_metadata("reward", "score"),
        "correct": _in_metadata("correct"),
        "answer": _in_metadata(*GOLD_ANSWERS, "answer"),
        "final_answer": _in_metadata(*FINAL_ANSWERS),
        "group": _in_metadata(*GROUPS, *PROBLEM_IDS),
        "id": ("id",),
        "step": ("step",),
        "tokens": _in_metadata("tokens"),
        "truncated": _in_metadata("truncated"),
    },
)
