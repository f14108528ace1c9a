"""The flagged rollouts as a CSV file for people who label: no cell of it is ever a formula."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from geoalign.lab.curate.reading import Dump
from geoalign.lab.curate.steps import CuratedStep
from geoalign.lab.curate.tables import group_statistics
from geoalign.lab.store.columns import whole_text
from geoalign.lab.store.curation import FLAGGED_FILE

# What a spreadsheet takes for the beginning of a formula, behind blanks too; the wide forms as well.
_FORMULA = tuple("=+-@＝＋－＠")
# A cell of Excel holds 32,767 characters.
LONGEST = 32_000
_FACTS = (
    "index",
    "step",
    "file",
    "line",
    "sample",
    "id",
    "group",
    "score",
    "reward",
    "new_reward",
    "true_reward",
    "correct",
    "group_mean",
    "group_size",
    "replaced_by",
    "characters",
)
_TEXTS = ("answer", "prompt", "response", "replacement")


class FlaggedWriter:
    """Writes one line for each flagged rollout, with empty columns `label` and `note`; UTF-8 with a byte-order mark, by
    which spreadsheets know it.

    Texts that could be read as a formula begin with an apostrophe; control characters become U+FFFD; longer ones than
    32,000 characters are cut, which the end of the cell says.
    """

    def __init__(self, folder: Path, *, redact: bool) -> None:
        self._redact = redact
        self._names = (*_FACTS, *(() if redact else _TEXTS), "label", "note")
        self._file = (folder / FLAGGED_FILE).open("w", encoding="utf-8-sig", newline="")
        self._rows = csv.DictWriter(self._file, self._names, quoting=csv.QUOTE_MINIMAL, restval="")
        self._rows.writeheader()

    def __enter__(self) -> FlaggedWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, dump: Dump, steps: Sequence[CuratedStep], first: int) -> None:
        """Writes the flagged rollouts of a file, the most suspicious of each step first."""
        for step in steps:
            groups = group_statistics(step)
            scores = step.curation.scores.double().cpu().numpy()
            flagged = np.flatnonzero(step.curation.anomalous.cpu().numpy())
            # Those that a curator flags without a score come last.
            for row in flagged[np.argsort(-np.nan_to_num(scores[flagged], nan=-np.inf), kind="stable")].tolist():
                self._rows.writerow(self._line(dump, step, row, scores[row], groups[step.groups[row]], first))

    def _line(
        self, dump: Dump, step: CuratedStep, row: int, score: float, group: dict[str, Any], first: int
    ) -> dict[str, Any]:
        flagged, placement = step.rows[row], step.placement
        source = int(placement.source[row]) if bool(placement.kept[row]) else -1
        values: dict[str, Any] = {
            "index": first + step.members[row],
            "step": step.step,
            "file": safe(str(dump.path)),
            "line": flagged.line,
            "sample": flagged.sample,
            "id": safe(flagged.id),
            "group": step.groups[row],
            "score": _number(score),
            "reward": _number(flagged.reward),
            "new_reward": _number(float(placement.rewards[row])),
            "true_reward": _number(flagged.true_reward),
            "correct": "" if flagged.correct is None else str(flagged.correct).lower(),
            "group_mean": _number(group["group_mean"]),
            "group_size": group["group_size"],
            "replaced_by": first + step.members[source] if source not in (-1, row) else "",
            "characters": len(flagged.response),
        }
        if not self._redact:
            values |= {
                "answer": safe(flagged.answer or ""),
                "prompt": safe(flagged.prompt),
                "response": safe(flagged.response),
                "replacement": safe(step.rows[source].response) if source not in (-1, row) else "",
            }
        return values


def safe(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula, without control characters, of bounded length."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ... ({len(text):,} characters)"
    clean = "".join(
        one if one in "\n\t" or not (ord(one) < 32 or 127 <= ord(one) < 160) else "\ufffd"
        for one in whole_text(text).replace("\r\n", "\n").replace("\r", "\n")
    )
    risky = clean.lstrip().startswith(_FORMULA) or clean[:1] in ("\t", "\n")
    return f"'{clean}" if risky else clean


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(float(value))
