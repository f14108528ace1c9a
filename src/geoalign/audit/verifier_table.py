"""What the verdicts of several verifiers on the same rows say: agreement, contradictions, bounds, rates, a ranking.

In the order of trust: bounds need no model; rates by checks rest on rows that were drawn at random and checked; the
model of several verifiers guesses, without an interval, and only where answers exclude each other and at least four
verifiers judge. Nothing of this says which of two verifiers is right on a row: one of them is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
import torch
from jaxtyping import Bool, Float, Int

from geoalign.audit.verdicts import are_verdicts
from geoalign.checks.rates import CheckedRate, CheckedRates, checked_rates
from geoalign.dumps.formats.format import VERDICT
from geoalign.method.bounds import Bounds, false_negative_bounds, false_positive_bounds, judged_units
from geoalign.noise.several_verifiers import LEAST_VERIFIERS, VerdictUnits, VerifierMode, verifier_modes

# What the file's own reward is called among the verifiers.
REWARD = "reward"
# Rows that are listed of a pair, each of another prompt, for either direction.
_LISTED = 5
# The model is fitted on so many prompts at most, and refused with fewer or where fewer rows have an answer.
MOST_PROMPTS = 2000
LEAST_PROMPTS = 30
LEAST_ANSWERED = 0.5
# Standard errors by which the balanced accuracies of two verifiers must differ to be told apart.
_TOLD_APART = 1.96


@dataclass(frozen=True)
class VerifierOutcome:
    """How a verifier that was asked did: what it is, and on how many rows it failed."""

    kind: str
    spec: str
    failed: int
    first_failure: str | None


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
        exclusive: whether at most one answer to a prompt is right.
    """

    accepted: pandas.DataFrame
    no_verdicts: dict[str, str]
    group: Int[np.ndarray, " n"]
    unit: Int[np.ndarray, " n"]
    answered: Bool[np.ndarray, " n"]
    truth: Float[np.ndarray, " n"]
    exclusive: bool

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.accepted]


def judged_by_all(table: pandas.DataFrame, *, exclusive: bool) -> JudgedRows:
    """The rows as this module reads them.

    Args:
        table: has `group`, `compared_answer`, `key` (of the response), `reward`, `label` and columns `verdict.NAME`.
        exclusive: whether at most one answer to a prompt is right.
    """
    columns = {REWARD: table["reward"]}
    columns |= {str(name).removeprefix(VERDICT): table[name] for name in table if str(name).startswith(VERDICT)}
    accepted = {}
    no_verdicts = {}
    for name, numbers in columns.items():
        reason = _why_no_verdicts(numbers)
        if reason is None:
            accepted[name] = _as_accepted(numbers)
        else:
            no_verdicts[name] = reason
    answered = table["compared_answer"].notna().to_numpy()
    groups = pandas.factorize(table["group"])[0]
    by_answer = pandas.factorize(pandas.MultiIndex.from_arrays([groups, table["compared_answer"].fillna("")]))[0]
    by_response = pandas.factorize(pandas.MultiIndex.from_arrays([groups, table["key"]]))[0]
    unit = np.where(answered, by_answer, by_answer.max() + 1 + by_response)
    truth = np.full(len(table), np.nan)
    if REWARD in accepted:
        # Labels are true rewards: the higher of both values, or the other.
        middle = (table["reward"].min() + table["reward"].max()) / 2
        labels = table["label"].to_numpy(dtype=float)
        truth = np.where(np.isnan(labels), np.nan, (labels > middle).astype(float))
    return JudgedRows(
        accepted=pandas.DataFrame(accepted, index=table.index),
        no_verdicts=no_verdicts,
        group=groups,
        unit=pandas.factorize(unit)[0],
        answered=answered,
        truth=truth,
        exclusive=exclusive,
    )


def _why_no_verdicts(numbers: pandas.Series) -> str | None:
    """Why a verifier's numbers are no verdicts; None where they are."""
    values = sorted(numbers.dropna().unique().tolist())
    if not values:
        return "it judged no row"
    if len(values) > 2:
        return f"it gives scores, of {len(values):,} values, and not verdicts"
    if len(values) == 2 and not are_verdicts(values[0], values[1]):
        return f"its two values, {values[0]:g} and {values[1]:g}, are not verdicts such as 0 and 1"
    return None


def _as_accepted(numbers: pandas.Series) -> pandas.Series:
    """1 for the higher of two values, 0 for the lower, NaN where there is none; a lone value accepts if it is
    positive."""
    values = numbers.dropna().unique().tolist()
    threshold = sum(values) / 2 if len(values) == 2 else 0.0
    return (numbers > threshold).astype(float).where(numbers.notna())


def further_verdicts(rows: pandas.DataFrame) -> pandas.DataFrame:
    """[N, K] what each further verifier says of the rows: 1, 0 or NaN, by its name. Numbers that are no verdicts are
    left out.

    Args:
        rows: has a column `verdict.NAME` for each further verifier.
    """
    columns = {str(name).removeprefix(VERDICT): rows[name] for name in rows if str(name).startswith(VERDICT)}
    verdicts = {name: _as_accepted(numbers) for name, numbers in columns.items() if _why_no_verdicts(numbers) is None}
    return pandas.DataFrame(verdicts, index=rows.index)


# --- the summary ------------------------------------------------------------------------------------------------------


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
    originals = _originals(judged)
    entries = []
    for name in (*judged.names, *judged.no_verdicts):
        outcome = outcomes.get(name)
        entries.append(
            {
                "name": name,
                "kind": outcome.kind if outcome else ("reward" if name == REWARD else "column"),
                "spec": outcome.spec if outcome else None,
                "failed": outcome.failed if outcome else 0,
                "first_failure": outcome.first_failure if outcome else None,
                "reason": judged.no_verdicts.get(name),
                "same_as": originals[name] if originals.get(name, name) != name else None,
                **_counts(judged, name),
                "bounds": _as_numbers(bounds.get(name)),
                "checks": _as_claims(by_checks.get(name)),
            }
        )
    model = model_summary(judged, bounds, seed=seed)
    return {
        "rows": len(judged.accepted),
        "answers": "exclusive" if judged.exclusive else "shared",
        "table": entries,
        "pairs": pair_summaries(judged),
        "model": model.entry,
        "ranking": _ranking(by_checks, model),
    }


def _counts(judged: JudgedRows, name: str) -> dict[str, Any]:
    """On how many rows a verifier gave a verdict, what share it accepts, and how often it agrees with the reward."""
    if name not in judged.accepted:
        return {"judged": 0, "accepted": None, "agrees_with_reward": None}
    verdicts = judged.accepted[name]
    agreement = None
    if REWARD in judged.accepted and name != REWARD:
        both = verdicts.notna() & judged.accepted[REWARD].notna()
        agreement = float((verdicts == judged.accepted[REWARD])[both].mean()) if both.any() else None
    return {
        "judged": int(verdicts.notna().sum()),
        "accepted": float(verdicts.mean()),
        "agrees_with_reward": agreement,
    }


def pair_summaries(judged: JudgedRows) -> list[dict[str, Any]]:
    """For each two verifiers on how many rows they agree, and rows on which one accepts what the other refuses.

    Of every contradiction exactly one of the two is wrong. The pairs that contradict each other most come first.
    """
    names = judged.names
    found = []
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            one = judged.accepted[first]
            other = judged.accepted[second]
            both = int((one.notna() & other.notna()).sum())
            first_alone = ((one == 1) & (other == 0)).to_numpy()
            second_alone = ((one == 0) & (other == 1)).to_numpy()
            contradictions = int(first_alone.sum() + second_alone.sum())
            found.append(
                {
                    "first": first,
                    "second": second,
                    "both_judged": both,
                    "agreement": 1 - contradictions / both if both else None,
                    "first_alone_accepts": int(first_alone.sum()),
                    "second_alone_accepts": int(second_alone.sum()),
                    "first_alone_rows": _one_of_each_prompt(judged, first_alone),
                    "second_alone_rows": _one_of_each_prompt(judged, second_alone),
                }
            )
    return sorted(found, key=lambda pair: -(pair["first_alone_accepts"] + pair["second_alone_accepts"]))


def _one_of_each_prompt(judged: JudgedRows, chosen: Bool[np.ndarray, " n"]) -> list[int]:
    """The indices of the first chosen rows, each of another prompt."""
    places = np.flatnonzero(chosen)
    first_of_prompt = ~pandas.Series(judged.group[places]).duplicated().to_numpy()
    return [int(index) for index in judged.accepted.index[places[first_of_prompt][:_LISTED]]]


def rate_bounds(judged: JudgedRows, name: str) -> dict[str, Bounds] | None:
    """What the verdicts of one verifier prove of its error rates; None where several answers may be right."""
    if not judged.exclusive:
        return None
    verdicts = judged.accepted[name].to_numpy()
    has = ~np.isnan(verdicts)
    units = judged_units(
        accepted=torch.tensor(verdicts[has] == 1),
        group=torch.tensor(judged.group[has]),
        unit=torch.tensor(judged.unit[has]),
        answered=torch.tensor(judged.answered[has]),
        truth=torch.tensor(judged.truth[has]),
    )
    return {"false_positive_rate": false_positive_bounds(units), "false_negative_rate": false_negative_bounds(units)}


def _as_numbers(bounds: Mapping[str, Bounds] | None) -> dict[str, Any] | None:
    if bounds is None:
        return None
    return {name: {"low": _number(each.low), "high": _number(each.high)} for name, each in bounds.items()}


def _number(value: float) -> float | None:
    """As JSON knows it: None for NaN."""
    return None if math.isnan(value) else value


# --- rates by checks --------------------------------------------------------------------------------------------------


def rates_by_checks(judged: JudgedRows, checked: pandas.Series, *, seed: int) -> dict[str, CheckedRates]:
    """Both error rates of each verifier by the rows that were checked; of one that judged none of these nothing.

    Args:
        checked: by index whether the row is right; drawn uniformly from all rows, never chosen.
    """
    shares = _answer_shares(judged)
    found = {}
    for name in judged.names:
        has = judged.accepted[name].notna().to_numpy()
        rows = judged.accepted[has]
        labels = checked[checked.index.isin(rows.index)]
        if labels.empty:
            continue
        others = rows.drop(columns=name).fillna(0.5).to_numpy()
        guesses = rows.drop(columns=name).mean().dropna().tolist()
        found[name] = checked_rates(
            accepted=rows[name].to_numpy() == 1,
            checked=rows.index.get_indexer(labels.index),
            right=labels.to_numpy(dtype=bool),
            features=np.column_stack([others, shares[has]]),
            right_shares=guesses,
            seed=seed,
        )
    return found


def _answer_shares(judged: JudgedRows) -> Float[np.ndarray, " n"]:
    """[N] the share of a prompt's rows that give the row's answer; 0 without one."""
    copies = np.bincount(judged.unit)[judged.unit]
    sizes = np.bincount(judged.group)[judged.group]
    shares: np.ndarray = np.where(judged.answered, copies / sizes, 0.0)
    return shares


def _as_claims(rates: CheckedRates | None) -> dict[str, Any] | None:
    if rates is None:
        return None
    both = {"false_positive_rate": rates.false_positive_rate, "false_negative_rate": rates.false_negative_rate}
    return {
        name: {
            "estimate": _number(rate.estimate),
            "low": rate.low,
            "high": rate.high,
            "checked": rate.checked,
            "errors": rate.errors,
        }
        for name, rate in both.items()
    }


# --- the model's guess ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Model:
    """The model's guess.

    Attributes:
        entry: `model` of the summary: the modes, or the reason why there are none.
        names: the verifiers that it ranks, the best first.
        tied: [K, K] whether it cannot tell two of them apart, in the order of `names`.
    """

    entry: dict[str, Any]
    names: list[str]
    tied: Bool[np.ndarray, "k k"]


def why_no_model(judged: JudgedRows) -> str | None:
    """Why the model of several verifiers may not speak, in a sentence; None where it may."""
    if not judged.exclusive:
        return "Several answers to a prompt may be right, and then nothing tells a good verifier from a bad one."
    share = float(judged.answered.mean())
    if share < LEAST_ANSWERED:
        return f"Only {share:.0%} of the responses have a final answer, and the model rests on answers."
    telling = [name for name in set(_originals(judged).values()) if judged.accepted[name].nunique() > 1]
    if len(telling) < LEAST_VERIFIERS:
        return (
            f"It needs at least {LEAST_VERIFIERS} verifiers that differ from each other and both accept and refuse, "
            f"and here {'is 1' if len(telling) == 1 else f'are {len(telling)}'}: fewer do not tell who errs."
        )
    prompts = len(np.unique(judged.group[judged.answered]))
    if prompts < LEAST_PROMPTS:
        return f"It needs at least {LEAST_PROMPTS} prompts with answers, and here are {prompts}."
    return None


def _originals(judged: JudgedRows) -> dict[str, str]:
    """By verifier the first one with the very same verdicts: a copy is no further evidence."""
    found: dict[str, str] = {}
    names = judged.names
    for place, name in enumerate(names):
        same = (other for other in names[:place] if judged.accepted[other].equals(judged.accepted[name]))
        found[name] = next(same, name)
    return found


def verdict_units(judged: JudgedRows, names: Sequence[str], *, seed: int) -> VerdictUnits:
    """The answers with the mean verdict of each verifier on their copies; of very many prompts a random part."""
    prompts = np.unique(judged.group[judged.answered])
    if len(prompts) > MOST_PROMPTS:
        prompts = np.random.default_rng(seed).choice(prompts, MOST_PROMPTS, replace=False)
    kept = judged.answered & np.isin(judged.group, prompts)
    units = judged.unit[kept]
    by_unit = judged.accepted.loc[kept, list(names)].groupby(units)
    verdicts = by_unit.mean()
    first = pandas.Series(judged.group[kept]).groupby(units).first().reindex(verdicts.index)
    copies = np.bincount(units)[verdicts.index]
    sizes = np.bincount(judged.group)[first]
    return VerdictUnits(
        verdicts=torch.tensor(verdicts.to_numpy(dtype=float)),
        prompts=torch.tensor(pandas.factorize(first)[0]),
        copies=torch.tensor(copies),
        sizes=torch.tensor(sizes),
    )


def model_summary(judged: JudgedRows, bounds: Mapping[str, dict[str, Bounds] | None], *, seed: int) -> Model:
    """Every mode of the model that explains the verdicts nearly as well as the best, or why it may not speak.

    A guess beyond what is proved is moved to the bound.
    """
    reason = why_no_model(judged)
    if reason is not None:
        return Model({"reason": reason}, [], np.zeros((0, 0), dtype=bool))
    originals = _originals(judged)
    different = list(dict.fromkeys(originals.values()))
    units = verdict_units(judged, different, seed=seed)
    modes = verifier_modes(units)
    place_of = {name: different.index(original) for name, original in originals.items()}
    entries = []
    for mode in modes:
        rates = {}
        for name, place in place_of.items():
            of_verifier = bounds[name]
            assert of_verifier is not None
            positive = _within(float(mode.false_positive_rates[place]), of_verifier["false_positive_rate"])
            negative = _within(float(mode.false_negative_rates[place]), of_verifier["false_negative_rate"])
            rates[name] = {
                "false_positive_rate": _number(positive),
                "false_negative_rate": _number(negative),
                "balanced_accuracy": _number(1 - (positive + negative) / 2),
            }
        entries.append({"nats_behind": round(modes[0].log_posterior - mode.log_posterior, 3), "rates": rates})
    apart = told_apart(units, modes)
    best = modes[0].balanced_accuracies.numpy()
    names = sorted(place_of, key=lambda name: -best[place_of[name]])
    places = [place_of[name] for name in names]
    entry = {"prompts": int(units.prompts.max()) + 1, "modes": entries}
    return Model(entry, names, ~apart[np.ix_(places, places)])


def _within(value: float, bounds: Bounds) -> float:
    return min(max(value, bounds.low), bounds.high) if not math.isnan(value + bounds.low) else value


def told_apart(units: VerdictUnits, modes: Sequence[VerifierMode]) -> Bool[np.ndarray, "k k"]:
    """[K, K] whether the balanced accuracies of two verifiers differ in every mode, in one direction.

    They differ where the difference is larger than two standard errors, which have two parts: other prompts would have
    been judged otherwise, and which answers are right is known by a chance alone.
    """
    verdicts = units.verdicts.numpy()
    copies = units.copies.numpy()
    prompts = units.prompts.numpy()
    verifiers = verdicts.shape[1]
    signs = np.zeros((len(modes), verifiers, verifiers))
    for number, mode in enumerate(modes):
        chance = mode.chance_right.detach().numpy()
        for one in range(verifiers):
            for other in range(verifiers):
                # Balanced accuracy is (sum n p v / R + sum n (1 - p) (1 - v) / W) / 2.
                gap = np.nan_to_num(verdicts[:, one] - verdicts[:, other]) * copies / 2
                right = (copies * chance).sum()
                wrong = (copies * (1 - chance)).sum()
                gains = gap * (chance / right - (1 - chance) / wrong)
                by_prompt = np.bincount(prompts, weights=gains)
                of_truth = (gap * (1 / right + 1 / wrong)) ** 2 * chance * (1 - chance)
                error = math.sqrt((by_prompt**2).sum() + of_truth.sum())
                difference = gains.sum()
                signs[number, one, other] = np.sign(difference) * (abs(difference) > _TOLD_APART * error)
    return (np.abs(signs.sum(axis=0)) == len(modes)) & (len(modes) > 0)


# --- the ranking ------------------------------------------------------------------------------------------------------


def _ranking(by_checks: Mapping[str, CheckedRates], model: Model) -> dict[str, Any]:
    """`ranking` of the summary: by checks where there are some, else the model's; verifiers of one place are tied."""
    if len(by_checks) > 1:
        names, tied = ranked_by_checks(by_checks)
        return {"by": "checks", "reason": None, "places": places_of(names, tied)}
    if model.names:
        return {"by": "model", "reason": None, "places": places_of(model.names, model.tied)}
    return {"by": None, "reason": model.entry["reason"], "places": []}


def ranked_by_checks(rates: Mapping[str, CheckedRates]) -> tuple[list[str], Bool[np.ndarray, "k k"]]:
    """The verifiers by balanced accuracy, the best first, and whether the intervals of two of them overlap."""
    low = {}
    high = {}
    middle = {}
    for name, both in rates.items():
        errors = (both.false_positive_rate, both.false_negative_rate)
        low[name] = 1 - sum(rate.high for rate in errors) / 2
        high[name] = 1 - sum(rate.low for rate in errors) / 2
        middle[name] = 1 - sum(_estimate(rate) for rate in errors) / 2
    names = sorted(rates, key=lambda name: -middle[name])
    overlap = [[low[one] <= high[other] and low[other] <= high[one] for other in names] for one in names]
    return names, np.array(overlap)


def _estimate(rate: CheckedRate) -> float:
    return (rate.low + rate.high) / 2 if math.isnan(rate.estimate) else rate.estimate


def places_of(names: Sequence[str], tied: Bool[np.ndarray, "k k"]) -> list[list[str]]:
    """The names by place: a verifier shares the place of the one that opened it, unless it can be told from it."""
    places: list[list[str]] = []
    opened_by = 0
    for number, name in enumerate(names):
        if places and tied[opened_by, number]:
            places[-1].append(name)
        else:
            places.append([name])
            opened_by = number
    return places
