"""What binary rewards say of the verifier that gave them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.audit.checked_verdicts import CheckedVerdicts, checks_in_summary
from geoalign.audit.two_verdicts import ONE_VERDICT, verdict_values, why_no_verdicts
from geoalign.checks.rates import CheckedRate
from geoalign.files.json_files import number_or_none
from geoalign.intervals import Interval
from geoalign.method.bounds import (
    Bounds,
    JudgedUnits,
    false_negative_bounds,
    false_positive_bounds,
    judged_units,
    least_errors,
)
from geoalign.method.groups import canonical_order
from geoalign.noise.channel import LEVEL
from geoalign.noise.error_rates import RATES, ErrorRates, error_rates
from geoalign.noise.rows import NoisyRows, noisy_rows
from geoalign.types import Rollouts, response_keys

# Of a rate that nothing bounds, and of one of which no model says anything.
NOTHING_PROVED = Bounds(0.0, 1.0)
NO_GUESS = Interval(math.nan, math.nan, math.nan)
# Of one verdict alone, which nothing contradicts, the model says nothing.
_NO_MODEL = ErrorRates((NO_GUESS, NO_GUESS, NO_GUESS), doubt="all verdicts are the same")
# The columns of a step that are kept until all have been read.
_READ = ["group", "reward", "final_answer", "label", "exclusive"]
# The model is not believed where fewer of the answers are to prompts at most one of whose answers is right.
_LEAST_EXCLUSIVE = 0.5
MOSTLY_SHARED = "on most prompts several of the answers may be right, and then nothing tells who errs"


def verdict_counts(
    label: Int[Tensor, " n"], group: Int[Tensor, " n"], right: Bool[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> tuple[int, int]:
    """In how many groups counted rows of one label got two verdicts or more, and in how many these were not the same.

    Args:
        label: an answer or a response, unique over groups.
        right: whether the row was rewarded.
        counted: whether the row counts.
    """
    size = int(label.max()) + 1 if len(label) else 0
    yes = torch.bincount(label[counted & right], minlength=size)
    no = torch.bincount(label[counted & ~right], minlength=size)
    of_label = label.new_zeros(size)
    of_label[label] = group
    repeated = yes + no >= 2
    mixed = (yes > 0) & (no > 0)
    return len(of_label[repeated].unique()), len(of_label[mixed].unique())


def certain(
    rows: NoisyRows, accepted: Bool[Tensor, " n"], truth: Float[Tensor, " n"], *, exclusive: bool
) -> tuple[dict[str, Bounds] | None, int]:
    """What the verdicts prove: bounds of the rates, by name, and the least number of errors.

    Rows without a reward are left out; those without an answer may be right or wrong, identical ones together, and so
    may answers to a prompt that do not exclude each other. Where no answers do, no rate is bounded, and only
    contradictions are errors.

    Args:
        truth: 1 or 0 where it is known, NaN elsewhere.
        exclusive: False: several answers to any prompt may be right.
    """
    scored = rows.scored
    units = judged_units(
        accepted=accepted[scored],
        group=rows.group[scored],
        unit=rows.answer[scored],
        excludes=(rows.answered & rows.exclusive)[scored] & exclusive,
        truth=truth[scored],
    )
    if not exclusive:
        return None, least_errors(units)
    rates = proved_rates(units)
    positive, negative = rates.values()
    # Informedness is 1 less both rates.
    informedness = Bounds(max(1 - positive.high - negative.high, -1.0), 1 - positive.low - negative.low)
    return {**rates, RATES[2]: informedness}, least_errors(units)


def proved_rates(units: JudgedUnits) -> dict[str, Bounds]:
    """The bounds of both error rates, by name.

    All errors of a verifier that gave one verdict alone are of one kind, and their rate is 100% if there is any row to
    err on. Where nothing proves that there is one, nothing is claimed of this rate.
    """
    positive = false_positive_bounds(units)
    negative = false_negative_bounds(units)
    if not least_errors(units):
        if not units.refused.any():
            positive = NOTHING_PROVED
        elif not units.accepted.any():
            negative = NOTHING_PROVED
    return {RATES[0]: positive, RATES[1]: negative}


def claimed(
    bounds: Mapping[str, Bounds] | None, model: ErrorRates, checks: CheckedVerdicts | None = None
) -> dict[str, dict[str, Any]]:
    """The best claim on each rate, and by what it is known.

    Args:
        bounds: what the verdicts prove; None where nothing bounds a rate, and the model says nothing, either.
        model: its estimates count where it may be believed, and no checks tell the rate.
        checks: what checked rows say, if some were checked.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, interval in zip(RATES[:2], model.intervals, strict=False):
        bound = NOTHING_PROVED if bounds is None else bounds[name]
        guess = NO_GUESS if bounds is None else interval
        checked: CheckedRate | None = None if checks is None else getattr(checks.rates, name)
        found[name] = best_claim(bound, guess, checked, is_model_believed=bounds is not None and not model.doubt)
    positive, negative = found.values()
    by = {positive["by"], negative["by"]}
    informedness = {
        "estimate": _informedness(positive["estimate"], negative["estimate"]),
        "low": _informedness(positive["high"], negative["high"]),
        "high": _informedness(positive["low"], negative["low"]),
        "by": next((kind for kind in ("checks", "model") if kind in by), "bounds"),
    }
    return {**found, RATES[2]: informedness}


# A model's interval that is wider than this tells nothing, and is not claimed.
WIDEST_GUESS = 0.75


def best_claim(
    bound: Bounds, model: Interval, checked: CheckedRate | None, *, is_model_believed: bool
) -> dict[str, Any]:
    """The claim on one rate of one verifier.

    It is by checks where a row of the class was checked, else by a model that is believed and whose interval is no
    wider than `WIDEST_GUESS`, inside the bounds; by the bounds where that is no narrower.

    The estimate is that of the checks, or else the model's, moved into the interval; None where there is none. Where
    the rows are known to have none of the class, the bounds are NaN: without a checked one no rate is claimed.
    """
    if checked is not None and checked.checked:
        return _claim_by_checks(checked, bound)
    if is_model_believed and model.high - model.low <= WIDEST_GUESS:
        return _claim_by_model(model, bound)
    return _claim_by_bounds(model.estimate, bound)


def _claim_by_checks(checked: CheckedRate, bound: Bounds) -> dict[str, Any]:
    """Checks that lie wholly outside the bounds deny the supposition behind these, and stand alone."""
    low = max(checked.low, bound.low)
    high = min(checked.high, bound.high)
    if math.isnan(bound.low) or low > high:
        return _claim(checked.estimate, checked.low, checked.high, by="checks")
    if (low, high) == (bound.low, bound.high):
        return _claim_by_bounds(checked.estimate, bound)
    return _claim(checked.estimate, low, high, by="checks")


def _claim_by_model(model: Interval, bound: Bounds) -> dict[str, Any]:
    """A model whose interval tells no more than the bounds, or contradicts them, leaves them as they are."""
    low = max(model.low, bound.low)
    high = min(model.high, bound.high)
    if math.isnan(bound.low) or low > high or (low, high) == (bound.low, bound.high):
        return _claim_by_bounds(model.estimate, bound)
    return _claim(model.estimate, low, high, by="model")


def _claim_by_bounds(estimate: float, bound: Bounds) -> dict[str, Any]:
    """Without any row of the class there is no rate to estimate, either."""
    if math.isnan(bound.low):
        estimate = math.nan
    return _claim(estimate, bound.low, bound.high, by="bounds")


def _claim(estimate: float, low: float, high: float, *, by: str) -> dict[str, Any]:
    """As JSON knows it, with the estimate moved into the interval."""
    moved = min(max(estimate, low), high)
    return {**_numbers({"estimate": moved, "low": low, "high": high}), "by": by}


def guessed(model: ErrorRates) -> dict[str, dict[str, Any]]:
    """What the model says of each rate: without an interval where it is in doubt."""
    names = ("estimate",) if model.doubt else ("estimate", "low", "high")
    return {
        rate: _numbers({name: getattr(interval, name) for name in names})
        for rate, interval in zip(RATES, model.intervals, strict=True)
    }


def _informedness(positive: float | None, negative: float | None) -> float | None:
    """1 less both error rates, at least -1; None where one is not known."""
    return None if positive is None or negative is None else max(1 - positive - negative, -1.0)


def _numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    """As JSON knows them: None for NaN."""
    return {name: number_or_none(value) for name, value in values.items()}


class VerdictAudit:
    """Collects the rollouts of one call of the command, step by step, while their rewards are binary.

    `exclusive`: at most one answer to a prompt is right, unless its rows say otherwise; False: several may be, and no
    rate is told.
    """

    def __init__(self, *, exclusive: bool = True) -> None:
        self._exclusive = exclusive
        self._values: set[float] = set()
        self._parts: list[pandas.DataFrame] = []

    def add(self, frame: pandas.DataFrame) -> None:
        """Takes the rollouts of a step: groups unique over steps, the index of the frame that of the output.

        Without a column `label` no truth is known, and without `exclusive` at most one answer to each prompt is right.
        """
        self._values |= set(frame["reward"].dropna().unique().tolist())
        if len(self._values) > 2:
            self._parts = []
            return
        part = frame.reindex(columns=_READ)
        if "exclusive" not in frame:
            part["exclusive"] = True
        # A dump may come without its texts: each response is then one of its own.
        has_texts = any(frame["response"])
        keys = response_keys(frame["response"]).numpy() if has_texts else frame.index.to_numpy()
        self._parts.append(part.assign(key=keys))

    def summary(self, checks: CheckedVerdicts | None = None) -> dict[str, Any]:
        """`verifier` of `summary.json`; of rewards that say nothing of a verifier the reason.

        Args:
            checks: what checked rows say, if some were checked. Where they deny that equal answers are equally right
                and at most one is right, nothing that rests on it is claimed.
        """
        verdicts = verdict_values(self._values)
        if verdicts is None:
            return {"reason": why_no_verdicts(self._values)}
        low, high = verdicts
        is_one_verdict = len(self._values) == 1
        table = pandas.concat(self._parts)
        rows, truth = judged_rows(table, middle=(low + high) / 2)
        right = rows.rewards == high
        answered = rows.scored & rows.answered
        repeated_answers, contradicted_answers = verdict_counts(rows.answer, rows.group, right, answered)
        repeated_responses, contradicted_responses = verdict_counts(rows.response, rows.group, right, rows.scored)
        if checks is None and not is_one_verdict and not answered.any() and not repeated_responses:
            return {"reason": "No response has a final answer, and none was given twice."}
        share_exclusive = float(rows.exclusive[answered].double().mean()) if answered.any() else 1.0
        exclusive = self._exclusive and share_exclusive > 0
        bounds, errors = certain(rows, right, truth, exclusive=exclusive)
        if is_one_verdict and not errors and checks is None:
            return {"reason": ONE_VERDICT}
        model = _NO_MODEL if is_one_verdict else error_rates(rows, exclusive=exclusive)
        if exclusive and not is_one_verdict and share_exclusive < _LEAST_EXCLUSIVE:
            model = replace(model, doubt=MOSTLY_SHARED)
        if checks is not None and checks.contradicted_prompts:
            bounds = None
            errors = 0
        return {
            "groups": int(rows.group.max()) + 1,
            "scored": int(rows.scored.sum()),
            "rewarded": int((rows.scored & right).sum()),
            "answered": int(answered.sum()),
            "groups_with_repeated_answers": repeated_answers,
            "groups_with_answers_judged_both_ways": contradicted_answers,
            "groups_with_repeated_responses": repeated_responses,
            "groups_with_responses_judged_both_ways": contradicted_responses,
            "answers": "exclusive" if exclusive else "shared",
            "known_truths": int((~truth[rows.scored].isnan()).sum()),
            "errors_at_least": errors,
            "bounds": None if bounds is None else {n: _numbers(vars(each)) for n, each in bounds.items()},
            "rates": None if bounds is None and checks is None else claimed(bounds, model, checks),
            "checks": checks_in_summary(checks),
            "model": guessed(model),
            "doubt": model.doubt or None,
            "level": LEVEL,
        }


def judged_rows(table: pandas.DataFrame, *, middle: float) -> tuple[NoisyRows, Float[Tensor, " n"]]:
    """The rows as the model reads them, and their truth where a label tells it: 1 above the middle, else 0."""
    rollouts = Rollouts(
        rewards=torch.tensor(table["reward"].to_numpy()),
        groups=torch.tensor(table["group"].to_numpy()),
        answers=[answer if isinstance(answer, str) else None for answer in table["final_answer"]],
        response_keys=torch.tensor(table["key"].to_numpy()),
        shared_answers=torch.tensor(~table["exclusive"].to_numpy(dtype=bool)),
    )
    order = canonical_order(rollouts.rewards, rollouts.groups)
    labels = torch.tensor(table["label"].astype(float).to_numpy())[order.order]
    truth = torch.where(labels.isnan(), torch.nan, (labels > middle).double())
    return noisy_rows(rollouts, order, answers=True), truth
