"""`verifiers` of `summary.json`: everything that the verdicts of several verifiers say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas

from geoalign.audit.several_verifiers.agreement import counts_of_verifier, pair_summaries
from geoalign.audit.several_verifiers.judged_rows import REWARD, JudgedRows
from geoalign.audit.several_verifiers.model import model_summary
from geoalign.audit.several_verifiers.ranking import ranking_summary
from geoalign.audit.several_verifiers.rates import rate_bounds, rates_by_checks
from geoalign.audit.verdicts import NO_GUESS, NOTHING_PROVED, best_claim
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
    right: pandas.Series | None = None,
) -> dict[str, Any]:
    """`verifiers` of `summary.json`.

    Args:
        outcomes: by name the verifiers that were asked; the others are columns of the file.
        seed: draws the prompts that the model is fitted on where there are very many.
        right: 1, 0 or, without a label, NaN of each row that was drawn at random to be checked, by its index.
    """
    by_checks = {} if right is None else rates_by_checks(judged, right, seed=seed)
    bounds = {name: rate_bounds(judged, name) for name in judged.names}
    claims = {}
    for name in judged.names:
        # What is proved of a verifier that judged drawn rows alone is proved of these; checks are of the whole file.
        of_other_rows = name in judged.drawn and name in by_checks
        claims[name] = claimed_rates(None if of_other_rows else bounds[name], by_checks.get(name))
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
                "rates": claims.get(name),
            }
        )
    model = model_summary(judged, bounds, seed=seed)
    claimed_by_checks = {name: _cut_to_claims(rates, claims[name]) for name, rates in by_checks.items()}
    return {
        "rows": len(judged.accepted),
        "answers": "exclusive" if judged.exclusive else "shared",
        "table": entries,
        "pairs": pair_summaries(judged),
        "model": model.entry,
        "ranking": ranking_summary(claimed_by_checks, model),
    }


def claimed_rates(bounds: Mapping[str, Bounds] | None, checks: CheckedRates | None) -> dict[str, dict[str, Any]]:
    """The best claim on both rates of one verifier, as `verifier.rates` has it of the reward: by checks, cut to the
    bounds, or else the bounds. The model of several verifiers has no intervals, so it claims nothing."""
    claims = {}
    for name in ("false_positive_rate", "false_negative_rate"):
        bound = NOTHING_PROVED if bounds is None else bounds[name]
        checked: CheckedRate | None = None if checks is None else getattr(checks, name)
        claims[name] = best_claim(bound, NO_GUESS, checked, is_model_believed=False)
    return claims


def _cut_to_claims(rates: CheckedRates, claims: Mapping[str, Mapping[str, Any]]) -> CheckedRates:
    """Both rates by checks with the intervals that are claimed; where nothing is claimed, with those of the checks."""
    cut = {}
    for name, claim in claims.items():
        of_checks: CheckedRate = getattr(rates, name)
        is_claimed = claim["low"] is not None
        cut[name] = replace(of_checks, low=claim["low"], high=claim["high"]) if is_claimed else of_checks
    return CheckedRates(**cut)


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
