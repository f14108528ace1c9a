"""Episodes of verifiers and prime-rl, after `Episode.to_record` of verifiers (a60a606).

prime-rl writes the same records into other files as time goes on; `dumps/prime_rl.py` says which.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from geoalign.dumps.formats.format import Format, Row
from geoalign.dumps.formats.turns import as_messages, as_one_text, role_and_text
from geoalign.dumps.values import BadValueError

# Where prime-rl writes: by its own step, in which not all of its rollouts were begun.
_STEP_FOLDER = re.compile(r"/step_(\d{1,18})/(?:train|eval)/(?:all|effective)/[^/]+$")

# Where the framework's own limits stopped a trace, after `Trace.is_truncated`.
_TRUNCATING_STOPS = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed")


def flatten(row: Row) -> Row:
    """The trace that trains the policy: what its model wrote is the response, tool calls and turns between included."""
    traces = [trace for trace in row.get("traces") or [] if trace.get("agent", {}).get("trainable", True)]
    if len(traces) != 1:
        raise BadValueError("traces", "one trace that trains the policy", str(len(traces)))
    messages = _last_branch(traces[0].get("nodes") or [])
    first_turn = next((place for place, node in enumerate(messages) if node.get("sampled")), len(messages))
    prompt = [role_and_text(node["message"]) for node in messages[:first_turn]]
    turns = [role_and_text(node.get("message") or {}) for node in messages[first_turn:]]
    task = row.get("task") or {}
    answer = (task.get("data") or {}).get("answer")
    work = (row.get("run") or {}).get("work") or {}
    return {
        "prompt": as_messages(prompt),
        "response": as_one_text(turns),
        "reward": _reward(traces[0].get("rewards") or {}),
        "group": (row.get("group") or {}).get("id"),
        "problem_id": task.get("key") or task.get("hash"),
        "env_id": (row.get("env") or {}).get("id"),
        "id": row.get("id"),
        "answer": answer if isinstance(answer, (str, list)) else None,
        "step": work.get("step"),
        "truncated": _was_truncated(traces[0]),
    }


def _last_branch(nodes: list[Row]) -> list[Row]:
    """The messages from the root of a conversation, which branches where turns were taken back, to the last one."""
    branch: list[Row] = []
    place: Any = len(nodes) - 1
    # No branch is longer than the conversation, unless its parents go in a circle.
    while isinstance(place, int) and 0 <= place < len(nodes) and len(branch) <= len(nodes):
        branch.append(nodes[place])
        place = nodes[place].get("parent")
    return branch[::-1]


def _reward(rewards: Row) -> float | None:
    """The sum of score times weight; None where nothing was scored."""
    scored = [reward for reward in rewards.values() if reward is not None]
    return sum(reward["score"] * reward.get("weight", 1.0) for reward in scored) if scored else None


def _was_truncated(trace: Row) -> bool | None:
    """Whether a limit of the framework, or the length of the last answer, ended a trace; None where it does not say."""
    calls = [call for call in trace.get("calls") or [] if call.get("error") is None]
    stop = trace.get("stop_condition")
    if stop is None and not calls:
        return None
    return stop in _TRUNCATING_STOPS or bool(calls and calls[-1].get("finish_reason") == "length")


def step_in_path(path: Path) -> int | None:
    """The step of prime-rl's folder `step_N`; None of a file elsewhere."""
    match = _STEP_FOLDER.search(path.resolve().as_posix())
    return int(match[1]) if match else None


VERIFIERS = Format(
    name="verifiers",
    title="episodes of verifiers or prime-rl",
    columns=("traces", "task", "id"),
    flatten=flatten,
    fields={
        "prompt": ("prompt",),
        "response": ("response",),
        "reward": ("reward",),
        "answer": ("answer",),
        "group": ("group",),
        "id": ("id",),
        "step": ("step",),
        "truncated": ("truncated",),
    },
    step_in_path=step_in_path,
)
