"""Rollouts that verl writes into `trainer.rollout_data_dir`, a file of JSON lines for each step."""

from __future__ import annotations

from typing import Any

from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS, GROUPS
from geoalign.dumps.formats.format import Format, Row


def prompt_uid(row: Row, value: Any) -> Any:
    """The uid of the prompt: the V1 trainer writes `{uid of the prompt}_{session}_{index}`."""
    if not isinstance(value, str):
        return value
    parts = value.rsplit("_", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return parts[0]
    return value


VERL = Format(
    name="verl",
    title="rollout dump of verl",
    columns=("input", "output", "score", "step"),
    fields={
        "prompt": ("input",),
        "response": ("output",),
        "reward": ("score",),
        "correct": ("acc",),
        "answer": ("gts", *GOLD_ANSWERS),
        "final_answer": ("geoalign_answer", *FINAL_ANSWERS),
        "group": ("uid", *GROUPS),
        "id": ("uid", "request_id"),
        "step": ("step",),
    },
    readers={("group", "uid"): prompt_uid},
    uid_fields=("uid",),
    rendered=True,
)
