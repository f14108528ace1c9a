"""`verifiers` of `summary.json`: everything that the verdicts of several verifiers say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas

from geoalign.audit.several_verifiers.agreement import counts_of_verifier, pair_summaries
from geoalign.audit.several_verifiers.judged_rows import REWARD, JudgedRows
from geoalign.audit.several_verifiers.model import model_summary
from geoalign.audit.several_verifiers.ranking import ranking_summary
from geoalign.audit.several_verifiers.rates import rate_bounds, rates_by_checks
from geoalign.checks.rates import CheckedRate, CheckedRates
from geoalign.files.json_files import number_or_none
from geoalign.method.bounds import Bounds


@dataclass(frozen=True)
class VerifierOutcome:
    """What a verifier is, and how it did where it was asked.

    Attributes:
        kind: of a verifier that was asked its kind, "reward" for the file's reward, "column" for another column.
        spec: what the user named; None for columns.
        drawn: about how many rows drawn at random it was asked; None where it was asked about all.
        failed: on how many rows it failed.
        first_failure: what its first failure said.
    """

    kind: str
    spec: str | None = None
    drawn: int | None = None
    failed: int = 0
    first_failure: str | None = None


def verifier_summary(
    judged: JudgedRows,
    outcomes: Mapping[str, VerifierOutcome],
    *,
    seed: int,
    checked: pandas.Series | None = None,
) -> dict[str, Any]:
    """`verifiers` of `summary.json`.

    Args:
        outcomes: by name the verifiers that were asked; the others are columns of the file.
        seed: draws the prompts that the model is fitted on where there are very many.
        checked: whether each row that was drawn at random and checked is right, by its index.
    """
    by_checks = {} if checked is None else rates_by_checks(judged, checked, seed=seed)
    bounds = {name: rate_bounds(judged, name) for name in judged.names}
    originals = judged.originals()
    entries = []
    for name in (*judged.names, *judged.no_verdicts):
        of_file = VerifierOutcome(kind="reward" if name == REWARD else "column")
        original = originals.get(name, name)
        entries.append(
            {
                "name": name,
                **asdict(outcomes.get(name, of_file)),
                "reason": judged.no_verdicts.get(name),
                "same_as": None if original == name else original,
                **counts_of_verifier(judged, name),
                "bounds": _bounds_entry(bounds.get(name)),
                "checks": _checks_entry(by_checks.get(name)),
            }
        )
    model = model_summary(judged, bounds, seed=seed)
    return {
        "rows": len(judged.accepted),
        "answers": "exclusive" if judged.exclusive else "shared",
        "table": entries,
        "pairs": pair_summaries(judged),
        "model": model.entry,
        "ranking": ranking_summary(by_checks, model),
    }


def _bounds_entry(bounds: Mapping[str, Bounds] | None) -> dict[str, Any] | None:
    """The bounds of both rates; None where nothing is bounded."""
    if bounds is None:
        return None
    return {name: {"low": number_or_none(each.low), "high": number_or_none(each.high)} for name, each in bounds.items()}


def _checks_entry(rates: CheckedRates | None) -> dict[str, Any] | None:
    """Both rates by checks; None where no row was checked that the verifier judged."""
    if rates is None:
        return None
    return {
        "false_positive_rate": _checked_rate_entry(rates.false_positive_rate),
        "false_negative_rate": _checked_rate_entry(rates.false_negative_rate),
    }


def _checked_rate_entry(rate: CheckedRate) -> dict[str, Any]:
    return {
        "estimate": number_or_none(rate.estimate),
        "low": rate.low,
        "high": rate.high,
        "checked": rate.checked,
        "errors": rate.errors,
    }
