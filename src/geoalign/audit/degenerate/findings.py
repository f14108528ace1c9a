"""The symptoms of a file, or else of the environments that it names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool

from geoalign.answers import normal_form
from geoalign.audit.degenerate.symptoms import (
    LookedAt,
    Symptom,
    WholeFile,
    length_alone,
    one_value,
    tied,
    truncation_alone,
    unscored,
)
from geoalign.dumps.field_names import ENVIRONMENTS

# More environments than these are names of problems.
MOST_ENVIRONMENTS = 100


def degenerate_findings(rows: pandas.DataFrame, *, exclusive: bool = True) -> list[dict[str, Any]]:
    """`degenerate` of `summary.json`: every symptom of the file, or else of the environments that it names.

    Args:
        rows: has `reward`, `group`, `characters`, `tokens`, `truncated`, `compared_answer`, `final_answer`,
            `gold_answers`, `exclusive` and `origin`.
        exclusive: False: several answers to any prompt may be right.
    """
    found = symptoms_of(_looked_at(rows, exclusive=exclusive))
    # Where rewards are missing is worth to be known, though many are missing in the whole file.
    kinds = {symptom.kind for symptom in found} - {"unscored"}
    environments = list(_environments(rows))
    for where, part in environments:
        file = WholeFile(
            reward=rows["reward"].to_numpy(dtype=float),
            group=rows["group"].to_numpy(),
            is_part=rows.index.isin(part.index),
            parts=len(environments),
        )
        of_part = symptoms_of(_looked_at(part, exclusive=exclusive, where=where, file=file))
        found += [symptom for symptom in of_part if symptom.kind not in kinds]
    return [asdict(symptom) for symptom in found]


def symptoms_of(at: LookedAt) -> list[Symptom]:
    """All symptoms of some rollouts. A verdict that goes with truncation goes with the length as well: it is one."""
    found = [one_value(at), unscored(at), tied(at), truncation_alone(at) or length_alone(at)]
    return [symptom for symptom in found if symptom is not None]


def _looked_at(rows: pandas.DataFrame, *, exclusive: bool, where: str = "", file: WholeFile | None = None) -> LookedAt:
    """The columns of some rows of an audit."""
    return LookedAt(
        reward=rows["reward"].to_numpy(dtype=float),
        group=rows["group"].to_numpy(),
        answer=rows["compared_answer"].to_numpy(dtype=object),
        gives_gold=_gives_gold(rows),
        lengths={unit: rows[unit].to_numpy(dtype=float) for unit in ("characters", "tokens")},
        truncated=rows["truncated"].to_numpy(dtype=object),
        exclusive=rows["exclusive"].to_numpy(dtype=bool) & exclusive,
        where=where,
        file=file,
    )


def _environments(rows: pandas.DataFrame) -> Iterator[tuple[str, pandas.DataFrame]]:
    """The parts of the rows by environment or data source, the first of the fields that parts them."""
    origins = rows["origin"]
    for field in ENVIRONMENTS:
        names = pandas.Series([origin.get(field) if origin else None for origin in origins], index=rows.index)
        if 2 <= names.nunique() <= MOST_ENVIRONMENTS:
            for name, part in rows.groupby(names, sort=True):
                yield f"`{field}` {name}", part
            return


def _gives_gold(rows: pandas.DataFrame) -> Bool[np.ndarray, " n"]:
    """[n] whether the answer's normal form is that of a gold answer."""
    forms: dict[Any, str] = {}

    def form(text: Any) -> str | None:
        if not isinstance(text, str):
            return None
        if text not in forms:
            forms[text] = normal_form(text)
        return forms[text]

    pairs = zip(rows["final_answer"], rows["gold_answers"], strict=True)
    return np.array([form(answer) in map(form, golds) for answer, golds in pairs], dtype=bool)
