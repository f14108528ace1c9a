"""Samples of slime, after `save_debug_rollout_data` (624b824)."""

from __future__ import annotations

from collections.abc import Mapping

from geoalign.dumps.field_names import FINAL_ANSWERS
from geoalign.dumps.formats.format import Format, Row


def flatten(row: Row) -> Row:
    """A sample; aborted and failed ones were not scored.

    A reward may be what its DAPO verifier gives: an object of `score`, `acc` and `pred`.
    """
    status = row.get("status")
    reward = row.get("reward")
    verdict = reward if isinstance(reward, Mapping) else {"score": reward}
    label = row.get("label")
    return {
        "prompt": row.get("prompt"),
        "response": row.get("response"),
        "reward": None if status in ("aborted", "failed") else verdict.get("score"),
        "correct": verdict.get("acc"),
        "pred": verdict.get("pred"),
        "group": row.get("group_index"),
        "answer": label if isinstance(label, (str, list)) else None,
        "tokens": row.get("response_length"),
        "truncated": status == "truncated",
    }


SLIME = Format(
    name="slime",
    title="samples of slime",
    columns=("group_index", "prompt", "response", "response_length", "status"),
    flatten=flatten,
    fields={
        "prompt": ("prompt",),
        "response": ("response",),
        "reward": ("reward",),
        "correct": ("correct",),
        "answer": ("answer",),
        "final_answer": FINAL_ANSWERS,
        "group": ("group",),
        "tokens": ("tokens",),
        "truncated": ("truncated",),
    },
    rendered=True,
)
