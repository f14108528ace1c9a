"""Rollouts of NeMo-Gym: `rollouts.jsonl` of `gym eval run`, and what `gym eval reverify` judged again.

After github.com/NVIDIA-NeMo/Gym at 07d6b0d: `BaseVerifyResponse` in nemo_gym/base_resources_server.py is a row, to
which nemo_gym/rollout_collection.py and rollout_reverification.py add the same numbers of task and rollout. A resources
server adds fields of its own, such as `expected_answer` and `extracted_answer` of math_with_judge.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS, GROUPS
from geoalign.dumps.formats.format import Format, Row
from geoalign.dumps.formats.turns import as_messages, as_one_text, text_of
from geoalign.dumps.values import BadValueError, described

# The parts of a row that are read here and not kept.
_NESTED = ("responses_create_params", "response")


def flatten(row: Row) -> Row:
    """A rollout: what was asked through OpenAI's Responses interface, what came back, and the verifier's fields."""
    asked = row["responses_create_params"]
    response = row["response"]
    output = response.get("output")
    if not isinstance(output, list):
        raise BadValueError("response.output", "a list of what the model wrote", described(output))
    prompt = _turns(asked.get("input"))
    if asked.get("instructions"):
        prompt.insert(0, ("system", str(asked["instructions"])))
    task = row.get("_ng_task_index")
    rollout = row.get("_ng_rollout_index")
    incomplete = response.get("incomplete_details") or {}
    flat = {name: value for name, value in row.items() if name not in _NESTED}
    return {
        **flat,
        "prompt": as_messages(prompt),
        "response": as_one_text(_turns(output)),
        "rollout": None if task is None or rollout is None else f"{task}-{rollout}",
        "tokens": (response.get("usage") or {}).get("output_tokens"),
        "truncated": incomplete.get("reason") == "max_output_tokens",
    }


def _turns(items: Any) -> list[tuple[str, str]]:
    """The turns (role, text) of a text or of a list of items; reasoning, which no verifier is shown, is left out."""
    if isinstance(items, str):
        return [("user", items)]
    return list(_each_turn(items or []))


def _each_turn(items: Iterable[Row]) -> Iterable[tuple[str, str]]:
    for item in items:
        kind = item.get("type") or "message"
        if kind == "message":
            yield str(item.get("role")), text_of(item.get("content"))
        elif kind == "function_call":
            name = item.get("name")
            yield "assistant", f"{name}({item.get('arguments')})"
        elif kind == "function_call_output":
            yield "tool", str(item.get("output"))


NEMO_GYM = Format(
    name="nemo_gym",
    title="rollouts of NeMo-Gym",
    columns=("responses_create_params", "response", "reward"),
    flatten=flatten,
    fields={
        "prompt": ("prompt",),
        "response": ("response",),
        "reward": ("reward",),
        "answer": GOLD_ANSWERS,
        "final_answer": FINAL_ANSWERS,
        "group": ("_ng_task_index", *GROUPS),
        "id": ("rollout",),
        "tokens": ("tokens",),
        "truncated": ("truncated",),
    },
    reward_may_lack=True,
)
