"""TRL's tables of completions, in parquet or as W&B keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS, GROUPS, IDS, LIKELY_GOLD_ANSWERS, PROBLEM_IDS
from geoalign.dumps.formats.format import Format, Row
from geoalign.dumps.values import typed

# Columns that are no reward: the engine's own, what GeoAlign's trainer adds, and what a reward function logs of a row.
_NO_REWARDS = {
    "score", "anomalous", "source", "true_reward", *GOLD_ANSWERS, *LIKELY_GOLD_ANSWERS, *FINAL_ANSWERS, *GROUPS,
    *PROBLEM_IDS, *IDS,
}  # fmt: skip


def reward_columns(rows: Sequence[Row]) -> list[str]:
    """The columns of numbers between `completion` and `advantage`: each is called as its reward function."""
    names = list(rows[0])
    if "completion" in names and "advantage" in names:
        names = names[names.index("completion") + 1 : names.index("advantage")]
    return [name for name in names if name not in _NO_REWARDS and _are_numbers([row.get(name) for row in rows])]


def _are_numbers(values: Sequence[object]) -> bool:
    """Whether values are numbers or missing, with one number at least."""
    given = [value for value in map(typed, values) if value is not None]
    return bool(given) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in given)


TRL = Format(
    name="trl",
    title="completions table of TRL",
    columns=("step", "prompt", "completion", "advantage"),
    fields={
        "prompt": ("prompt",),
        "response": ("completion",),
        "true_reward": ("true_reward",),
        "answer": GOLD_ANSWERS,
        "final_answer": FINAL_ANSWERS,
        "group": GROUPS,
        "step": ("step",),
    },
    reward_columns=reward_columns,
    rendered=True,
    tables_only=True,
    repeats=True,
)
