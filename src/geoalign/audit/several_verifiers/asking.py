"""`--verifiers`: each judges all rows of a file; what fails is counted, and the others go on.

`verifier_table.py` makes numbers of the verdicts, `words/several_verifiers.py` sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas

from geoalign.answers.verifiers import (
    MATH_VERIFY,
    NamedVerifier,
    Rows,
    Verdict,
    function_verifier,
    named_verifier,
)
from geoalign.audit import Verifiers
from geoalign.audit.settings import AuditConfig
from geoalign.audit.several_verifiers.judged_rows import REWARD, judged_by_all
from geoalign.audit.several_verifiers.summary import VerifierOutcome, verifier_summary
from geoalign.dumps.formats.format import VERDICT
from geoalign.errors import ConfigError
from geoalign.secrets import masked
from geoalign.text import one_line, quote
from geoalign.types import response_keys

_KEY = "--verifiers"
# What a verifier is told of a row, where the file says so.
_FIELDS = ["prompt", "response", "answer", "final_answer", "reward", "id", "step"]
# The columns of a step that are kept, besides verdicts, until all have been read.
_KEPT = ["group", "reward", "label", "compared_answer"]
# Rows of one call. What a call that fails was asked is lost, but for functions, which are then asked row by row.
_ROWS_PER_CALL = 500
# After so many calls in a row that failed a verifier is not asked again.
_MOST_FAILED_CALLS = {"function": 20}
_MOST_FAILED_LONG_CALLS = 2


@dataclass
class _Asked:
    """What became of the questions to one verifier.

    Attributes:
        failed: rows on which it failed.
        first_failure: what its first failure said.
        failed_calls: calls that failed since the last one that did not.
    """

    verifier: NamedVerifier
    failed: int = 0
    first_failure: str | None = None
    failed_calls: int = 0

    @property
    def given_up(self) -> bool:
        return self.failed_calls >= _MOST_FAILED_CALLS.get(self.verifier.kind, _MOST_FAILED_LONG_CALLS)


class SeveralVerifiers:
    """The verifiers of one call of the audit: those that it asks, and those whose verdicts stand in the files."""

    def __init__(self, names: Sequence[str], config: AuditConfig, given: Sequence[NamedVerifier] = ()) -> None:
        """Raises ConfigError for a verifier that cannot be, and for two of one name.

        Args:
            names: each `--verifiers`: a verifier, or NAME=VERIFIER.
            given: verifiers that are functions in Python already.
        """
        asked = [named_verifier(name, config.endpoint, key=_KEY, section="endpoint") for name in names]
        self._asked = [_Asked(verifier) for verifier in (*asked, *given)]
        self._parts: list[pandas.DataFrame] = []
        seen = {REWARD}
        for verifier in self._verifiers:
            if verifier.name in seen:
                raise ConfigError(
                    f"{_KEY}: expected verifiers of different names, none of them {REWARD!r}, got "
                    f"{quote(verifier.name)} again: give one a name by {_KEY} NAME={verifier.spec}"
                )
            seen.add(verifier.name)

    @property
    def _verifiers(self) -> list[NamedVerifier]:
        return [asked.verifier for asked in self._asked]

    def judged(self, rows: pandas.DataFrame, gold_field: str | None) -> pandas.DataFrame:
        """The rows of a file with a column `verdict.NAME` for each verifier: 1 or 0, a number, or NaN.

        Args:
            rows: with the columns of a dump, `final_answer` and `compared_answer`.
            gold_field: what the file calls the gold answer: functions know it under this name as well.
        """
        for asked in self._asked:
            verifier = asked.verifier
            column = f"{VERDICT}{verifier.name}"
            if column in rows:
                raise ConfigError(f"{_KEY} {verifier.name}: expected another name than that of --field {column}=...")
            if verifier.needs_gold and rows["answer"].isna().all():
                raise ConfigError(f"{_KEY} {MATH_VERIFY}: expected gold answers (--field answer=NAME), got none")
            verdicts = _verdicts(asked, _questions(rows, verifier, gold_field))
            numbers = [None if verdict is None else float(verdict) for verdict in verdicts]
            rows = rows.assign(**{column: pandas.Series(numbers, index=rows.index, dtype="float64")})
        return rows

    def add(self, rows: pandas.DataFrame) -> None:
        """Takes the judged rows of a step: groups unique over steps, the index of the frame that of the output."""
        columns = [name for name in rows if str(name).startswith(VERDICT)]
        if not columns:
            return
        has_texts = any(rows["response"])
        keys = response_keys(rows["response"]).numpy() if has_texts else rows.index.to_numpy()
        self._parts.append(rows[[*_KEPT, *columns]].assign(key=keys))

    def verdicts(self) -> pandas.DataFrame | None:
        """What `verdicts.parquet` holds: `index`, and a truth value or null for each verifier; None where none judged.

        Numbers that are no verdicts are left out.
        """
        if not self._parts:
            return None
        accepted = judged_by_all(self._table(), exclusive=True).accepted.drop(columns=REWARD, errors="ignore")
        columns = {name: accepted[name].map({1.0: True, 0.0: False}).astype(object) for name in accepted}
        frame = pandas.DataFrame({name: column.where(column.notna(), None) for name, column in columns.items()})
        return frame.rename_axis("index").reset_index()

    def summary(
        self, *, exclusive: bool, seed: int, redact: bool, checked: pandas.Series | None = None
    ) -> dict[str, Any] | None:
        """`verifiers` of `summary.json`; None where there is no verifier but the reward.

        Args:
            exclusive: whether at most one answer to a prompt is right.
            seed: draws the prompts that the model is fitted on where there are very many.
            redact: leave out what a failure said, which may quote a text.
            checked: whether rows that were drawn at random and checked are right, by the index of the row.
        """
        if not self._parts:
            return None
        outcomes: dict[str, VerifierOutcome] = {}
        for asked in self._asked:
            verifier = asked.verifier
            said = None if redact else asked.first_failure
            outcomes[verifier.name] = VerifierOutcome(
                kind=verifier.kind, spec=verifier.spec, failed=asked.failed, first_failure=said
            )
        judged = judged_by_all(self._table(), exclusive=exclusive)
        return verifier_summary(judged, outcomes, seed=seed, checked=checked)

    def _table(self) -> pandas.DataFrame:
        return pandas.concat(self._parts).sort_index()


def _questions(rows: pandas.DataFrame, verifier: NamedVerifier, gold_field: str | None) -> Rows:
    """The rows as a verifier reads them; None for what the file does not say."""
    if verifier.needs_gold:
        # Math-Verify judges all spellings of an answer alike.
        rows = rows.assign(final_answer=rows["compared_answer"])
    questions = rows[_FIELDS].assign(prompt=rows["messages"].where(rows["messages"].notna(), rows["prompt"]))
    if verifier.kind == "function" and gold_field is not None and gold_field not in questions:
        questions[gold_field] = questions["answer"]
    records: Any = questions.astype(object).where(questions.notna(), None).to_dict("records")
    return [
        {**record, "prompt": list(record["prompt"]) if isinstance(record["prompt"], tuple) else record["prompt"]}
        for record in records
    ]


def _verdicts(asked: _Asked, rows: Rows) -> list[Verdict]:
    """The verdicts on all rows, some rows a call; None where the verifier failed, which is counted."""
    verdicts: list[Verdict] = []
    for start in range(0, len(rows), _ROWS_PER_CALL):
        part = rows[start : start + _ROWS_PER_CALL]
        said = _called(asked, part)
        smaller_parts = [[row] for row in part] if asked.verifier.kind == "function" else [part]
        if said is not None:
            verdicts += said
            continue
        for smaller in smaller_parts:
            said = _called(asked, smaller) if len(smaller) == 1 else None
            if said is None:
                asked.failed += len(smaller)
                said = [None] * len(smaller)
            verdicts += said
    return verdicts


def _called(asked: _Asked, rows: Rows) -> list[Verdict] | None:
    """What one call of the verifier says; None where it fails, or is not asked any more."""
    if asked.given_up:
        return None
    try:
        verdicts = asked.verifier.judge(rows)
    except (Exception, SystemExit) as error:  # whatever a program of others raises is a failure of it
        asked.failed_calls += 1
        asked.first_failure = asked.first_failure or masked(one_line(f"{type(error).__name__}: {error}"))
        return None
    asked.failed_calls = 0
    return verdicts


def python_verifiers(given: Verifiers) -> tuple[list[str], list[NamedVerifier]]:
    """What `audit(verifiers=...)` was given: the names for the command, and the functions as verifiers.

    Args:
        given: names and functions in TRL's form, or a dict of them by the name under which they are shown.
    """
    names: list[str] = []
    functions: list[NamedVerifier] = []
    pairs: Sequence[tuple[str | None, str | Callable[..., Any]]]
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, str) or callable(given):
        pairs = [(None, given)]
    else:
        pairs = [(None, verifier) for verifier in given]
    for name, verifier in pairs:
        if callable(verifier):
            functions.append(function_verifier(verifier, name=name))
        else:
            names.append(verifier if name is None else f"{name}={verifier}")
    return names, functions
