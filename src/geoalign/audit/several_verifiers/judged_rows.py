"""The verdicts of several verifiers on the same rows, as one table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas
from jaxtyping import Bool, Float, Int

from geoalign.audit.rounding import without_rounding
from geoalign.audit.two_verdicts import verdict_values
from geoalign.dumps.formats.format import VERDICT

# What the file's own reward is called among the verifiers.
REWARD = "reward"


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """N rows with the verdicts of K verifiers, the file's reward among them where it is a verdict.

    Attributes:
        accepted: [N, K] 1, 0 or NaN by verifier; the index is that of the output.
        no_verdicts: by verifier why its numbers are no verdicts.
        group: [N] the prompt, dense.
        unit: [N] rows with one number gave the same answer to the same prompt or, without one, the same response.
        answered: [N] whether the unit is an answer.
        truth: [N] 1 or 0 where a label tells it, NaN elsewhere.
        exclusive: whether answers exclude each other, at least on some prompts.
        excludes: [N] whether the unit is an answer that excludes the others to its prompt: at most one is right.
        drawn: the verifiers that judged rows drawn at random alone.
    """

    accepted: pandas.DataFrame
    no_verdicts: dict[str, str]
    group: Int[np.ndarray, " n"]
    unit: Int[np.ndarray, " n"]
    answered: Bool[np.ndarray, " n"]
    truth: Float[np.ndarray, " n"]
    exclusive: bool
    excludes: Bool[np.ndarray, " n"]
    drawn: Collection[str] = ()

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.accepted]

    def originals(self) -> dict[str, str]:
        """By verifier the first one with the very same verdicts: a copy is no further evidence."""
        found: dict[str, str] = {}
        for place, name in enumerate(self.names):
            own = self.accepted[name]
            same = (other for other in self.names[:place] if self.accepted[other].equals(own))
            found[name] = next(same, name)
        return found


def judged_by_all(table: pandas.DataFrame, *, exclusive: bool, drawn: Collection[str] = ()) -> JudgedRows:
    """The rows as this package reads them.

    Args:
        table: has `group`, `compared_answer`, `exclusive` (whether at most one answer to the prompt is right), `key`
            (of the response), `reward`, `label` and columns `verdict.NAME`.
        exclusive: False: several answers to any prompt may be right.
        drawn: the verifiers that were asked about rows drawn at random alone.
    """
    numbers_by_name = {REWARD: table["reward"], **verdict_columns(table)}
    accepted = {}
    no_verdicts = {}
    for name, numbers in numbers_by_name.items():
        reason = _why_left_out(numbers)
        if reason is None:
            accepted[name] = _as_accepted(numbers)
        else:
            no_verdicts[name] = reason
    groups = pandas.factorize(table["group"])[0]
    answered = table["compared_answer"].notna().to_numpy()
    excludes = answered & table["exclusive"].to_numpy(dtype=bool) & exclusive
    return JudgedRows(
        accepted=pandas.DataFrame(accepted, index=table.index),
        no_verdicts=no_verdicts,
        group=groups,
        unit=_units(table, groups),
        answered=answered,
        truth=_truth_by_labels(table, is_verdict=REWARD in accepted),
        exclusive=exclusive and bool(excludes.any() or not answered.any()),
        excludes=excludes,
        drawn=drawn,
    )


def verdict_columns(rows: pandas.DataFrame) -> dict[str, pandas.Series]:
    """What each further verifier gave the rows, verdicts or scores, by its name: the columns `verdict.NAME`.

    Verdicts that differ by rounding alone are one.
    """
    columns = [name for name in rows if str(name).startswith(VERDICT)]
    return {str(name).removeprefix(VERDICT): without_rounding(rows[name]) for name in columns}


def further_verdicts(rows: pandas.DataFrame) -> pandas.DataFrame:
    """[N, K] what each further verifier says of the rows: 1, 0 or NaN, by its name. Numbers that are no verdicts are
    left out.

    Args:
        rows: has a column `verdict.NAME` for each further verifier.
    """
    verdicts = {}
    for name, numbers in verdict_columns(rows).items():
        if _why_left_out(numbers) is None:
            verdicts[name] = _as_accepted(numbers)
    return pandas.DataFrame(verdicts, index=rows.index)


def _why_left_out(numbers: pandas.Series) -> str | None:
    """Why a verifier's numbers are no verdicts; None where they are."""
    values = sorted(numbers.dropna().unique().tolist())
    if not values:
        return "it judged no row"
    if verdict_values(values) is not None:
        return None
    if len(values) > 2:
        return f"it gives scores, of {len(values):,} values, and not verdicts"
    if len(values) == 1:
        return f"its only value, {values[0]:g}, is no verdict such as 0 or 1"
    return f"its two values, {values[0]:g} and {values[1]:g}, are not verdicts such as 0 and 1"


def _as_accepted(numbers: pandas.Series) -> pandas.Series:
    """1 for the value of an accepted row, 0 for that of a refused one, NaN where there is none; of verdicts alone."""
    values = verdict_values(numbers.dropna().unique().tolist())
    assert values is not None
    return (numbers == values[1]).astype(float).where(numbers.notna())


def _units(table: pandas.DataFrame, groups: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """[N] one number, from 0, for all rows of a prompt with the same answer or, without one, the same response."""
    answers = table["compared_answer"]
    by_answer = pandas.factorize(pandas.MultiIndex.from_arrays([groups, answers.fillna("")]))[0]
    by_response = pandas.factorize(pandas.MultiIndex.from_arrays([groups, table["key"]]))[0]
    # Numbers of responses begin behind those of answers.
    unit = np.where(answers.notna(), by_answer, by_answer.max() + 1 + by_response)
    dense: np.ndarray = pandas.factorize(unit)[0]
    return dense


def _truth_by_labels(table: pandas.DataFrame, *, is_verdict: bool) -> Float[np.ndarray, " n"]:
    """[N] what labels, which are true rewards, say: 1 for the higher reward, 0 for the lower, NaN without a label.

    Args:
        is_verdict: whether the reward is a verdict; labels of scores say nothing of right and wrong.
    """
    labels = table["label"].to_numpy(dtype=float)
    if not is_verdict:
        return np.full(len(table), np.nan)
    values = verdict_values(table["reward"].dropna().unique().tolist())
    assert values is not None
    middle = sum(values) / 2
    return np.where(np.isnan(labels), np.nan, (labels > middle).astype(float))
