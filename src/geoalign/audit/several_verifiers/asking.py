"""`--verifiers`: each judges all rows of the files, or rows drawn at random where it is too costly for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas

from geoalign.answers.verifiers import MATH_VERIFY, NamedVerifier, function_verifier, named_verifier
from geoalign.audit import Verifiers
from geoalign.audit.sample import UniformSample
from geoalign.audit.settings import AuditConfig
from geoalign.audit.several_verifiers.calls import AskedVerifier
from geoalign.audit.several_verifiers.judged_rows import REWARD, further_verdicts, judged_by_all
from geoalign.audit.several_verifiers.summary import VerifierOutcome, verifier_summary
from geoalign.dumps.formats.format import VERDICT
from geoalign.errors import ConfigError
from geoalign.text import quote
from geoalign.types import response_keys

_KEY = "--verifiers"
_ROWS_KEY = "--verifier-rows"
# The columns of a step that are kept, besides verdicts, until all have been read.
_KEPT = ["group", "reward", "label", "compared_answer", "exclusive"]


class SeveralVerifiers:
    """The verifiers of one call of the audit: those that it asks, and those whose verdicts stand in the files."""

    def __init__(
        self,
        names: Sequence[str],
        config: AuditConfig,
        given: Sequence[NamedVerifier] = (),
        *,
        rows: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        """Raises ConfigError for a verifier that cannot be, for two of one name, and for rows of no verifier.

        Args:
            names: each `--verifiers`: a verifier, or NAME=VERIFIER.
            given: verifiers that are functions in Python already.
            rows: each `--verifier-rows`: about how many rows all verifiers are asked, or NAME=N.
            seed: draws these rows. With the seed of the checks, those that are checked are among them.
        """
        asked = [named_verifier(name, config.endpoint, key=_KEY, section="endpoint") for name in names]
        self._asked = [AskedVerifier(verifier) for verifier in (*asked, *given)]
        _check_names([asked.verifier for asked in self._asked])
        self._drawn = _drawn_rows(rows, [asked.verifier.name for asked in self._asked])
        self._sample = UniformSample(max(self._drawn.values(), default=0), seed)
        self._parts: list[pandas.DataFrame] = []

    @property
    def drawn_columns(self) -> list[str]:
        """The columns of verifiers that judge drawn rows alone.

        The checked rows are among the drawn ones. So whoever predicts the labels by such a column would predict checked
        rows better than all others, and rates by that prediction would be biased.
        """
        return [f"{VERDICT}{name}" for name in self._drawn]

    def judged(self, rows: pandas.DataFrame, gold_field: str | None) -> pandas.DataFrame:
        """The rows of a file with a column `verdict.NAME` for each verifier: 1 or 0, a number, or NaN.

        Those that judge drawn rows alone are asked once all files are read: until then their columns are NaN.

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
            if verifier.name in self._drawn:
                rows = rows.assign(**{column: float("nan")})
            else:
                rows = rows.assign(**{column: asked.verdicts(rows, gold_field)})
        return rows

    def add(self, rows: pandas.DataFrame) -> None:
        """Takes the judged rows of a step: groups unique over steps, the index of the frame that of the output."""
        columns = [name for name in rows if str(name).startswith(VERDICT)]
        if not columns:
            return
        has_texts = any(rows["response"])
        keys = response_keys(rows["response"]).numpy() if has_texts else rows.index.to_numpy()
        self._parts.append(rows[[*_KEPT, *columns]].assign(key=keys))

    # --- verifiers that judge drawn rows alone ------------------------------------------------------------------------

    def draw_from(self, rows: pandas.DataFrame, gold_field: str | None) -> None:
        """Takes the rows of a file with their texts, in the order of the files; those with a reward may be drawn."""
        if self._drawn:
            self._sample.add(rows[rows["reward"].notna()].assign(gold_field=gold_field))

    def ask_about_drawn_rows(self) -> pandas.DataFrame:
        """Asks each verifier that judges drawn rows alone, and keeps what it says.

        Returns:
            The columns `verdict.NAME` of these verifiers, by the index of the row.
        """
        found: dict[str, pandas.Series] = {}
        for asked in self._asked:
            if asked.verifier.name not in self._drawn:
                continue
            rows = self._sample.drawn()[: self._drawn[asked.verifier.name]]
            by_file = rows.groupby("gold_field", sort=False, dropna=False)
            verdicts = [asked.verdicts(part, part["gold_field"].iloc[0]) for _, part in by_file]
            # Where no row has a reward, none is drawn.
            found[f"{VERDICT}{asked.verifier.name}"] = (
                pandas.concat(verdicts) if verdicts else pandas.Series(dtype=float)
            )
        columns = pandas.DataFrame(found)
        for part in self._parts:
            part.update(columns)
        return columns

    # --- what they say ------------------------------------------------------------------------------------------------

    def verdicts(self) -> pandas.DataFrame | None:
        """What `verdicts.parquet` holds: `index`, and a truth value or null for each verifier; None where none judged.

        Verifiers whose numbers are no verdicts are left out; without any other there is no row.
        """
        if not self._parts:
            return None
        accepted = further_verdicts(self._table())
        columns = {name: accepted[name].map({1.0: True, 0.0: False}).astype(object) for name in accepted}
        frame = pandas.DataFrame({name: column.where(column.notna(), None) for name, column in columns.items()})
        return frame.rename_axis("index").reset_index()

    def summary(
        self, *, exclusive: bool, seed: int, redact: bool, right: pandas.Series | None = None
    ) -> dict[str, Any] | None:
        """`verifiers` of `summary.json`; None where there is no verifier but the reward.

        Args:
            exclusive: False: several answers to any prompt may be right.
            seed: draws the prompts that the model is fitted on where there are very many.
            redact: leave out what a failure said, which may quote a text.
            right: 1, 0 or, without a label, NaN of the rows that were drawn to be checked, by the index of the row.
        """
        if not self._parts:
            return None
        outcomes: dict[str, VerifierOutcome] = {}
        for asked in self._asked:
            verifier = asked.verifier
            wanted = self._drawn.get(verifier.name)
            outcomes[verifier.name] = VerifierOutcome(
                kind=verifier.kind,
                spec=verifier.spec,
                drawn=None if wanted is None else min(wanted, self._sample.seen),
                failed=asked.failed,
                first_failure=None if redact else asked.first_failure,
            )
        judged = judged_by_all(self._table(), exclusive=exclusive, drawn=self._drawn)
        return verifier_summary(judged, outcomes, seed=seed, right=right)

    def _table(self) -> pandas.DataFrame:
        """The rows of all steps, in the order of the output."""
        return pandas.concat(self._parts).sort_index()


def _check_names(verifiers: Sequence[NamedVerifier]) -> None:
    """Raises ConfigError for two verifiers of one name, or one that is called as the file's reward."""
    seen = {REWARD}
    for verifier in verifiers:
        if verifier.name in seen:
            raise ConfigError(
                f"{_KEY}: expected verifiers of different names, none of them {REWARD!r}, got "
                f"{quote(verifier.name)} again: give one a name by {_KEY} NAME={verifier.spec}"
            )
        seen.add(verifier.name)


def _drawn_rows(texts: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """By verifier about how many drawn rows it is asked; those that judge all rows are left out.

    Args:
        texts: each `--verifier-rows`: N, of all verifiers, or NAME=N, which goes before it.
        names: the verifiers that are asked.

    Raises:
        ConfigError: a text is neither, or names no verifier that is asked.
    """
    of_all: dict[str, int] = {}
    of_one: dict[str, int] = {}
    for text in texts:
        name, is_of_one, number = text.rpartition("=")
        if not (number.isascii() and number.isdecimal() and int(number) > 0):
            raise ConfigError(f"{_ROWS_KEY}: expected a number of rows or NAME=N, got {quote(text)}")
        if not names or (is_of_one and name not in names):
            known = ", ".join(names) or "none was asked"
            raise ConfigError(f"{_ROWS_KEY} {text}: expected it with {_KEY}, of one of these verifiers: {known}")
        if is_of_one:
            of_one[name] = int(number)
        else:
            of_all = dict.fromkeys(names, int(number))
    return {**of_all, **of_one}


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
