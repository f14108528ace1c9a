"""Experiences of Trinity-RFT."""

from __future__ import annotations

from typing import Any

from geoalign.dumps.field_names import FINAL_ANSWERS
from geoalign.dumps.formats.format import Format, Row
from geoalign.dumps.values import BadValueError, described, field_of


def task(row: Row, value: Any) -> Any:
    """The task of an experience, which is its group; a later step of a run has no rewards to compare with others."""
    step = field_of(row, "eid.step")
    if value is not None and step not in (0, None):
        raise BadValueError("eid.step", "0: one experience for each run of a task", described(step))
    return value


def experience_id(row: Row, value: Any) -> str:
    """All parts of the experience's name, of which `eid.suffix` is the last."""
    parts = ("batch", "task", "run", "step", "suffix")
    return "/".join(str(field_of(row, f"eid.{part}")) for part in parts)


def was_truncated(row: Row, value: Any) -> bool | None:
    """Whether the response was cut off; the status may also say this of the prompt."""
    return None if value is None else value == "response_truncated"


TRINITY = Format(
    name="trinity",
    title="experiences of Trinity-RFT",
    columns=("eid.batch", "eid.task", "prompt_text", "response_text"),
    fields={
        "prompt": ("prompt_text",),
        "response": ("response_text",),
        "reward": ("reward",),
        "final_answer": (*FINAL_ANSWERS, *(f"info.{name}" for name in FINAL_ANSWERS)),
        "group": ("eid.task",),
        "id": ("eid.suffix",),
        "step": ("eid.batch",),
        "tokens": ("response_length",),
        "truncated": ("truncate_status",),
    },
    readers={
        ("group", "eid.task"): task,
        ("id", "eid.suffix"): experience_id,
        ("truncated", "truncate_status"): was_truncated,
    },
    rendered=True,
    reward_may_lack=True,
)
