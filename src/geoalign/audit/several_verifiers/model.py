"""What a model of all verifiers guesses: error rates without an interval, and who can be told apart.

`noise/several_verifiers.py` has the model. Here stands when it may speak, what it is given, and what is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
import torch
from jaxtyping import Bool, Float

from geoalign.audit.several_verifiers.judged_rows import JudgedRows
from geoalign.files.json_files import number_or_none
from geoalign.method.bounds import Bounds
from geoalign.noise.several_verifiers import LEAST_VERIFIERS, VerdictUnits, VerifierMode, verifier_modes

# The model is fitted on so many prompts at most, and refused with fewer or where fewer rows have an answer.
MOST_PROMPTS = 2000
LEAST_PROMPTS = 30
LEAST_ANSWERED = 0.5
# Standard errors by which the balanced accuracies of two verifiers must differ to be told apart.
_TOLD_APART = 1.96


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
    if float(judged.excludes.mean()) < LEAST_ANSWERED:
        return "On many prompts several of the answers may be right, and the model rests on the others."
    different = set(judged.originals().values())
    telling = [name for name in different if judged.accepted[name].nunique() > 1]
    if len(telling) < LEAST_VERIFIERS:
        return (
            f"It needs at least {LEAST_VERIFIERS} verifiers that differ from each other and both accept and refuse, "
            f"and here {'is 1' if len(telling) == 1 else f'are {len(telling)}'}: fewer do not tell who errs."
        )
    prompts = len(np.unique(judged.group[judged.excludes]))
    if prompts < LEAST_PROMPTS:
        return f"It needs at least {LEAST_PROMPTS} prompts with answers, and here are {prompts}."
    return None


def model_summary(judged: JudgedRows, bounds: Mapping[str, dict[str, Bounds] | None], *, seed: int) -> Model:
    """Every mode of the model that explains the verdicts nearly as well as the best, or why it may not speak.

    Args:
        bounds: what the verdicts of each verifier prove. A guess beyond it is moved to the bound.
        seed: draws the prompts that the model is fitted on where there are very many.
    """
    reason = why_no_model(judged)
    if reason is not None:
        return Model(entry={"reason": reason}, names=[], tied=np.zeros((0, 0), dtype=bool))
    originals = judged.originals()
    different = list(dict.fromkeys(originals.values()))
    units = verdict_units(judged, different, seed=seed)
    modes = verifier_modes(units)
    # Copies of a verifier share the column that it has in the model.
    column_of = {name: different.index(original) for name, original in originals.items()}
    entries = []
    for mode in modes:
        behind = round(modes[0].log_posterior - mode.log_posterior, 3)
        entries.append({"nats_behind": behind, "rates": _guessed_rates(mode, column_of, bounds)})
    best = modes[0].balanced_accuracies.numpy()
    names = sorted(column_of, key=lambda name: -best[column_of[name]])
    columns = [column_of[name] for name in names]
    apart = told_apart(units, modes)[np.ix_(columns, columns)]
    entry = {"prompts": int(units.prompts.max()) + 1, "modes": entries}
    return Model(entry=entry, names=names, tied=~apart)


def verdict_units(judged: JudgedRows, names: Sequence[str], *, seed: int) -> VerdictUnits:
    """The answers that exclude others, with the mean verdict of each verifier on their copies; of very many prompts a
    random part."""
    prompts = np.unique(judged.group[judged.excludes])
    if len(prompts) > MOST_PROMPTS:
        prompts = np.random.default_rng(seed).choice(prompts, MOST_PROMPTS, replace=False)
    kept = judged.excludes & np.isin(judged.group, prompts)
    units = judged.unit[kept]
    verdicts = judged.accepted.loc[kept, list(names)].groupby(units).mean()
    prompt_of_unit = pandas.Series(judged.group[kept]).groupby(units).first().reindex(verdicts.index)
    copies = np.bincount(units)[verdicts.index]
    sizes = np.bincount(judged.group)[prompt_of_unit]
    return VerdictUnits(
        verdicts=torch.tensor(verdicts.to_numpy(dtype=float)),
        prompts=torch.tensor(pandas.factorize(prompt_of_unit)[0]),
        copies=torch.tensor(copies),
        sizes=torch.tensor(sizes),
    )


def _guessed_rates(
    mode: VerifierMode, column_of: Mapping[str, int], bounds: Mapping[str, dict[str, Bounds] | None]
) -> dict[str, dict[str, float | None]]:
    """Both error rates and the balanced accuracy of each verifier in one mode; None where the model cannot tell."""
    rates = {}
    for name, column in column_of.items():
        proved = bounds[name]
        assert proved is not None  # where answers exclude each other, and elsewhere the model does not speak
        positive = _within(float(mode.false_positive_rates[column]), proved["false_positive_rate"])
        negative = _within(float(mode.false_negative_rates[column]), proved["false_negative_rate"])
        rates[name] = {
            "false_positive_rate": number_or_none(positive),
            "false_negative_rate": number_or_none(negative),
            "balanced_accuracy": number_or_none(1 - (positive + negative) / 2),
        }
    return rates


def _within(value: float, bounds: Bounds) -> float:
    """The value moved into the bounds; unchanged where it or they are not known."""
    is_known = not math.isnan(value + bounds.low)
    return min(max(value, bounds.low), bounds.high) if is_known else value


# --- who can be told apart --------------------------------------------------------------------------------------------


def told_apart(units: VerdictUnits, modes: Sequence[VerifierMode]) -> Bool[np.ndarray, "k k"]:
    """[K, K] whether the balanced accuracies of two verifiers differ in every mode, in one direction.

    They differ where the difference is larger than two standard errors, which have two parts: other prompts would have
    been judged otherwise, and which answers are right is known by a chance alone.
    """
    verifiers = units.verdicts.shape[1]
    signs = np.zeros((len(modes), verifiers, verifiers))
    for number, mode in enumerate(modes):
        for one in range(verifiers):
            for other in range(verifiers):
                signs[number, one, other] = _sign_of_difference(units, mode, one, other)
    in_one_direction = np.abs(signs.sum(axis=0)) == len(modes)
    return in_one_direction & (len(modes) > 0)


def _sign_of_difference(units: VerdictUnits, mode: VerifierMode, one: int, other: int) -> float:
    """1 or -1 where the balanced accuracy of `one` is higher or lower than that of `other`, 0 where that may be chance.

    With R and W the expected numbers of right and of wrong rollouts, n_u the copies of an answer, p_u the chance that
    it is right and v_u a verifier's mean verdict on them, balanced accuracy is

        (sum_u n_u p_u v_u / R + sum_u n_u (1 - p_u) (1 - v_u) / W) / 2.
    """
    copies = units.copies.numpy()
    chance: Float[np.ndarray, " u"] = mode.chance_right.detach().numpy()
    verdicts = units.verdicts.numpy()
    right = (copies * chance).sum()
    wrong = (copies * (1 - chance)).sum()
    gap = np.nan_to_num(verdicts[:, one] - verdicts[:, other]) * copies / 2
    gains = gap * (chance / right - (1 - chance) / wrong)
    difference = gains.sum()
    by_prompt = np.bincount(units.prompts.numpy(), weights=gains)
    variance_of_truth = (gap * (1 / right + 1 / wrong)) ** 2 * chance * (1 - chance)
    error = math.sqrt((by_prompt**2).sum() + variance_of_truth.sum())
    return float(np.sign(difference) * (abs(difference) > _TOLD_APART * error))
