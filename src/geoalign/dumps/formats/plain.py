"""Files of no engine: one rollout a row, or one prompt a row with lists of its responses and their rewards."""

from __future__ import annotations

from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS, GROUPS
from geoalign.dumps.formats.format import Format

_QUESTIONS = ("query", "question", "problem")

RESPONSES = Format(
    name="responses",
    title="lists of responses, one prompt a row",
    fields={
        "prompt": (*_QUESTIONS, "prompt"),
        "system": ("system",),
        "response": ("response", "responses", "generations", "completions", "outputs"),
        "reward": ("pred_score", "rewards", "reward", "scores", "score", "correctness_math_verify"),
        "correct": ("score", "correct", "correctness_math_verify"),
        "answer": (*GOLD_ANSWERS, "answer"),
        "final_answer": (*FINAL_ANSWERS, *(f"{name}s" for name in FINAL_ANSWERS)),
        "step": ("step",),
    },
    lists=True,
)
PLAIN = Format(
    name="plain",
    title="one rollout a row",
    fields={
        "prompt": ("prompt", *_QUESTIONS, "input"),
        "system": ("system",),
        "response": ("response", "completion", "output"),
        "reward": ("reward", "score"),
        "true_reward": ("true_reward",),
        "correct": ("correct",),
        # Where a file has both, `answer` may be what the response answered.
        "answer": (*GOLD_ANSWERS, "answer"),
        "final_answer": FINAL_ANSWERS,
        "group": GROUPS,
        "id": ("id",),
        "step": ("step",),
        "tokens": ("tokens",),
        "truncated": ("truncated",),
    },
)
