"""Nested rows of engines as flat ones: NeMo-RL's training data, episodes of verifiers and prime-rl, slime's samples.

After the code that writes them: `log_batched_dict_as_jsonl` of NeMo-RL (7ea279a), `Episode.to_record` of verifiers
(a60a606), `save_debug_rollout_data` of slime (624b824).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from geoalign.dumps.values import BadValueError, described

Row = Mapping[str, Any]


def nemo_rl(row: Row) -> Row:
    """One sample: a list of one in each field. The policy's messages are told by `token_loss_mask`; the environment
    answers each of them, but for a last one that it left without an answer."""
    flat = {name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in row.items()}
    messages = flat.get("content")
    if not isinstance(messages, list) or len(messages) < 2 or not all(isinstance(text, str) for text in messages):
        raise BadValueError("content", "the texts of two messages or more", described(messages))
    mask = flat["token_loss_mask"] if isinstance(flat.get("token_loss_mask"), list) else []
    runs = [learnt for learnt, _ in groupby(map(bool, mask[: flat.get("input_lengths")]))]
    first = len(messages) - 2 * sum(runs) + (own := runs[-1:] == [True])
    if not 0 < first < len(messages):
        raise BadValueError("token_loss_mask", "a prompt and turns of the policy", f"{sum(runs)} turns")
    prompt, response = ("\n\n".join(part) for part in (messages[:first], messages[first : None if own else -1]))
    return {**flat, "prompt": prompt, "response": response, "reward": flat.get("rewards")}


def episode(row: Row) -> Row:
    """The trace that trains the policy: what its model wrote is the response, tool calls and turns between included."""
    traces = [trace for trace in row.get("traces") or [] if trace.get("agent", {}).get("trainable", True)]
    if len(traces) != 1:
        raise BadValueError("traces", "one trace that trains the policy", f"{len(traces)} (--skip-bad leaves such out)")
    (trace,) = traces
    nodes: list[Row] = trace.get("nodes") or []
    path: list[Row] = []
    at: Any = len(nodes) - 1
    # From the last message back to the root.
    while isinstance(at, int) and 0 <= at < len(nodes) and len(path) <= len(nodes):
        path.insert(0, nodes[at])
        at = nodes[at].get("parent")
    first = next((place for place, node in enumerate(path) if node.get("sampled")), len(path))
    turns = [_turn(node.get("message") or {}) for node in path[first:]]
    rewards = [reward for reward in (trace.get("rewards") or {}).values() if reward is not None]
    task, data = row.get("task") or {}, (row.get("task") or {}).get("data") or {}
    prompt = [{"role": role, "content": text} for role, text in (_turn(node["message"]) for node in path[:first])]
    return {
        "prompt": prompt,
        "response": turns[0][1] if len(turns) == 1 else "\n".join(f"[{role}]\n{text}" for role, text in turns),
        "reward": sum(one["score"] * one.get("weight", 1.0) for one in rewards) if rewards else None,
        "group": (row.get("group") or {}).get("id"),
        "problem_id": task.get("key") or task.get("hash"),
        "env_id": (row.get("env") or {}).get("id"),
        "id": row.get("id"),
        "answer": data.get("answer") if isinstance(data.get("answer"), str) else None,
        "step": ((row.get("run") or {}).get("work") or {}).get("step"),
    }


def _turn(message: Row) -> tuple[str, str]:
    """The role and the text of a message, calls of tools as `name(arguments)`."""
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text")]
    texts += [f"{call.get('name')}({call.get('arguments')})" for call in message.get("tool_calls") or []]
    return str(message.get("role")), "\n".join(texts)


def slime(row: Row) -> Row:
    """A sample; aborted and failed ones were not scored.

    A reward may be what its DAPO verifier gives: an object of `score`, `acc` and `pred`.
    """
    ended = row.get("status")
    reward = row.get("reward")
    verdict: Row = {"score": reward}
    if isinstance(reward, Mapping):
        verdict = reward
    return {
        **{name: row.get(name) for name in ("prompt", "response")},
        "reward": None if ended in ("aborted", "failed") else verdict.get("score"),
        "correct": verdict.get("acc"),
        "pred": verdict.get("pred"),
        "group": row.get("group_index"),
        "answer": row.get("label") if isinstance(row.get("label"), str) else None,
        "tokens": row.get("response_length"),
        "truncated": ended == "truncated",
    }
