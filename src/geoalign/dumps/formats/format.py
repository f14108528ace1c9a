"""What a format declares: how rollout files of one engine are recognised, and where the parts of a rollout stand.

To add a format, write a file beside this one that makes a `Format`, name it in `formats/__init__.py`, and write a test
with a few rows as the engine writes them. `verl.py` is an example of flat rows, `slime.py` of nested ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# A row of a file by the names of its fields.
Row = Mapping[str, Any]

# What a rollout can have, by the names of `--field`. `true_reward` is the reward before corruption, `correct` a verdict
# to compare with, `answer` the gold answer, `final_answer` that of the response, `group` what rollouts of one prompt
# share. A layout finds their fields in this order.
ROLES = (
    "prompt", "system", "response", "reward", "true_reward", "correct", "answer", "final_answer", "group", "id", "step",
    "tokens", "truncated",
)  # fmt: skip


# `verdict.NAME`: what the verifier NAME said of the response.
VERDICT = "verdict."


@dataclass(frozen=True)
class Format:
    """A format of rollout files. Names of fields are dotted where values are nested, as in `extra_info.index`.

    Attributes:
        name: what `--format` calls it.
        title: what the terminal calls it.
        fields: by role of `ROLES` the fields that may hold it; of several, the first that a file has.
        columns: a row that has all of these fields is of this format. Without any, a row is of this format if it has a
            response, a reward, and a prompt, a group or an id.
        readers: by role and field, how the role is read where the field does not hold it as it is: a function of the
            row and the field's value, None where the row has none. It raises BadValueError for a row that it refuses.
        flatten: makes flat fields of a row in which an engine nests them, for `fields` to name. It raises BadValueError
            for a row that holds no rollout.
        lists: a row holds a prompt and lists of its responses and of their rewards.
        rendered: prompts are the text that the model read, not bare questions.
        tables_only: only tables (parquet, CSV, W&B's) are of this format.
        reward_may_lack: a row without the reward's field could not be scored.
        repeats: the engine writes rollouts again, as another step, for every further update on them.
        uid_fields: fields that name the group in some versions of the engine and the rollout in others: they name
            rollouts if each row has its own.
        reward_columns: the columns of the first rows that may be the reward, where its name is the user's choice.
        step_in_path: the step that the path of a file names; None where it names none. It comes before fields.
    """

    name: str
    title: str
    fields: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...] = ()
    readers: Mapping[tuple[str, str], Callable[[Row, Any], Any]] = field(default_factory=dict)
    flatten: Callable[[Row], Row] = dict
    lists: bool = False
    rendered: bool = False
    tables_only: bool = False
    reward_may_lack: bool = False
    repeats: bool = False
    uid_fields: tuple[str, ...] = ()
    reward_columns: Callable[[Sequence[Row]], list[str]] | None = None
    step_in_path: Callable[[Path], int | None] | None = None
