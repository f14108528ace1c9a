"""What an audit found, as one object: a row for each rollout, and the numbers of `summary.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet

from geoalign.audit.answers import is_gold
from geoalign.audit.folder import DENSITIES_FILE, PAIRS_FILE, SCORES_FILE, SUMMARY_FILE, TEXTS, VERDICTS_FILE
from geoalign.audit.prompts import common_beginning
from geoalign.audit.several_verifiers.frame import verifier_frame
from geoalign.audit.stored_texts import first_and_last_prompt, keys_of_responses, read_texts
from geoalign.audit.suspicion import by_suspicion
from geoalign.audit.two_verdicts import verdict_values
from geoalign.audit.words import Words, in_words
from geoalign.audit.words.reasons import flag_reasons
from geoalign.dumps.formats.format import VERDICT
from geoalign.dumps.row_names import counted_in
from geoalign.files.json_files import read_json

# Truth values and numbers that may lack: NaN where they do.
NUMBERS = (
    "reward", "true_reward", "correct", "truncated", "tokens", "score", "weight", "new_reward", "probability_wrong",
    "denoised_reward",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """What an audit found. Terminal, page and notebook show it, and the files of the output folder hold it.

    Attributes:
        rows: one row for each rollout, in the order of the input. It has the columns of `scores.parquet`
            (docs/formats.md), where a number or truth value that is not known is NaN, and three more for flagged
            rollouts: `why` (why the reward looks wrong, in words), `suspicion` (0 for the most suspicious one, then 1,
            2, ...), and `is_gold` (whether the answer is the gold answer; None where that is not known). Where further
            verifiers judged, `verdict.NAME` is what each said: True, False or None.
        summary: the content of `summary.json`.
        pairs: the pairs of rollouts that were compared (docs/formats.md); None for curators that compare none.
        densities: the density of each step's scores; None for curators that estimate none.
        folder: where the files lie; None where no output was asked for.
        common_beginning: what all prompts begin with, such as a system prompt; empty where it is short.
    """

    rows: pandas.DataFrame
    summary: dict[str, Any]
    pairs: pandas.DataFrame | None = None
    densities: pandas.DataFrame | None = None
    folder: Path | None = None
    common_beginning: str = ""

    @property
    def flagged(self) -> pandas.DataFrame:
        """The rows whose rewards look wrong, the most suspicious first."""
        return self.rows[self.rows["anomalous"]].sort_values("suspicion")

    @property
    def verifiers(self) -> pandas.DataFrame | None:
        """A row for each verifier by its name, the file's reward among them, and what is known of it in columns such as
        `accepted`, `agrees_with_reward` and `false_positive_at_least`; None where no further verifier judged."""
        several = self.summary.get("verifiers")
        return None if several is None else verifier_frame(several)

    @cached_property
    def words(self) -> Words:
        """What was found, in sentences."""
        return in_words(self.summary)

    def place(self, index: int) -> str:
        """Where a rollout stands in the input, by its index: its line, and the file where there are several."""
        row: Any = self.rows.loc[index]
        file = Path(row["file"])
        place = f"{counted_in(file)} {row['line']}"
        return f"{file.name}, {place}" if self._several_files else place

    @cached_property
    def _several_files(self) -> bool:
        return bool(self.rows["file"].nunique() > 1)

    @property
    def curator(self) -> Mapping[str, Any]:
        """The settings of the curator: its `type`, and the others by name."""
        settings: Mapping[str, Any] = self.summary["curator"]
        return settings

    @property
    def has_texts(self) -> bool:
        """Whether the rows have `prompt` and `response`; without (--redact) they have no answers, either."""
        return not self.summary["redacted"]

    def with_texts(self, rows: pandas.DataFrame) -> pandas.DataFrame:
        """Some of the rows with `prompt` and `response`; without these where the audit kept none (--redact).

        A report that was read without texts takes them from the folder.
        """
        if "response" in rows or not self.has_texts:
            return rows
        assert self.folder is not None
        return rows.join(read_texts(self.folder / SCORES_FILE, rows.index.to_numpy()))

    @property
    def verdicts(self) -> tuple[float, float] | None:
        """The rewards of a refused and of an accepted response; None where rewards are no verdicts."""
        return verdict_values(self.rows["reward"].dropna().unique().tolist())

    def __repr__(self) -> str:
        from geoalign.audit.notebook import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from geoalign.audit.notebook import as_html

        return as_html(self)


def read_report(folder: Path, *, texts: bool = True) -> AuditReport:
    """Reads the tables and the summary of an audit's folder.

    Args:
        texts: give the rows `prompt` and `response`, so that those of all rollouts are in memory. Without them
            `AuditReport.with_texts` reads those of some rows, as long as the folder lasts.
    """
    folder = Path(folder)
    summary = read_json(folder / SUMMARY_FILE)
    scores = folder / SCORES_FILE
    rows = _scores(scores, texts=texts)
    pairs = _table(folder / PAIRS_FILE)
    flagged = by_suspicion(rows)
    responses = keys_of_responses(scores)
    keyed = rows if responses is None else rows.assign(response=responses)
    reasons = flag_reasons(keyed, summary, compares_states=pairs is not None)
    ranks = pandas.Series(range(len(flagged)), index=flagged.index, dtype="float64")
    golds = pandas.Series(is_gold(flagged), index=flagged.index, dtype=object)
    rows["why"] = pandas.Series(reasons, dtype=object).reindex(rows.index)
    rows["suspicion"] = ranks.reindex(rows.index)
    rows["is_gold"] = golds.reindex(rows.index)
    verdicts = _table(folder / VERDICTS_FILE)
    if verdicts is not None:
        rows = rows.join(verdicts.set_index("index").add_prefix(VERDICT), on="index")
    return AuditReport(
        rows=rows,
        summary=summary,
        pairs=pairs,
        densities=_table(folder / DENSITIES_FILE),
        folder=folder,
        common_beginning=common_beginning(*first_and_last_prompt(scores)),
    )


def _scores(path: Path, *, texts: bool) -> pandas.DataFrame:
    """The rows of `scores.parquet`, with numbers that may be missing as NaN.

    Each column is read alone and made one piece. Beside the result there is then one column at a time in memory; and
    of a column in several pieces pandas would copy the whole, all texts, whenever it picks some rows.
    """
    columns = {}
    with pyarrow.parquet.ParquetFile(path) as file:
        for name in file.schema_arrow.names:
            if name in TEXTS and not texts:
                continue
            column = file.read(columns=[name]).combine_chunks().to_pandas()[name]
            columns[name] = column.astype("float64") if name in NUMBERS else column
    return pandas.DataFrame(columns)


def _table(path: Path) -> pandas.DataFrame | None:
    """A table of the folder; None where the audit wrote none."""
    if not path.is_file():
        return None
    table: pandas.DataFrame = pyarrow.parquet.read_table(path).to_pandas()
    return table
