"""Error rates of each verifier: what its verdicts prove, and what rows say that were drawn at random and checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas
import torch
from jaxtyping import Bool, Float, Int

from geoalign.audit.several_verifiers.judged_rows import JudgedRows
from geoalign.audit.verdicts import proved_rates
from geoalign.checks.missing_labels import RatesOf, rates_whatever_is_missing
from geoalign.checks.rates import CheckedRates, checked_rates, rate_by_wilson
from geoalign.method.bounds import Bounds, judged_units


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
        excludes=torch.tensor(judged.excludes[has]),
        truth=torch.tensor(judged.truth[has]),
    )
    return proved_rates(units)


def rates_by_checks(judged: JudgedRows, right: pandas.Series, *, seed: int) -> dict[str, CheckedRates]:
    """Both error rates of each verifier by the rows that were checked; of one that judged none of these nothing.

    The rates are those in the whole file. Of a verifier that judged drawn rows alone no prediction helps: the labels of
    those that were checked are all that there is. Nor does it predict the labels for the others: the checked rows are
    among those that it judged, so a prediction from it would differ between checked rows and all rows.

    Args:
        right: 1, 0 or, without a label, NaN of rows by their index; drawn uniformly from all rows, never chosen.
    """
    shares = _answer_shares(judged)
    found = {}
    for name in judged.names:
        has = judged.accepted[name].notna().to_numpy()
        of_verifier = right[right.index.isin(judged.accepted.index[has])]
        if of_verifier.isna().all():
            continue
        drawn = judged.accepted.index[has].get_indexer(of_verifier.index)
        accepted = judged.accepted.loc[has, name].to_numpy() == 1
        if name in judged.drawn:
            rates_of = _by_labels(accepted, drawn)
        else:
            others = judged.accepted[has].drop(columns=list({name, *judged.drawn}))
            features = np.column_stack([others.fillna(0.5).to_numpy(), shares[has]])
            shares_accepted = others.mean().dropna().tolist()
            rates_of = _by_prediction(accepted, drawn, features, right_shares=shares_accepted, seed=seed)
        found[name] = rates_whatever_is_missing(rates_of, accepted[drawn], of_verifier.to_numpy(dtype=float))
    return found


def _by_labels(accepted: Bool[np.ndarray, " n"], drawn: Int[np.ndarray, " c"]) -> RatesOf:
    """Both rates by the labels alone."""

    def rates_of(places: Int[np.ndarray, " k"], right: Bool[np.ndarray, " k"]) -> CheckedRates:
        verdicts = accepted[drawn[places]]
        return CheckedRates(
            false_positive_rate=rate_by_wilson(verdicts[~right]),
            false_negative_rate=rate_by_wilson(~verdicts[right]),
        )

    return rates_of


def _by_prediction(
    accepted: Bool[np.ndarray, " n"],
    drawn: Int[np.ndarray, " c"],
    features: Float[np.ndarray, "n k"],
    *,
    right_shares: Sequence[float],
    seed: int,
) -> RatesOf:
    """Both rates by the labels, and by what predicts them on all rows; the arguments are those of `checked_rates`."""

    def rates_of(places: Int[np.ndarray, " k"], right: Bool[np.ndarray, " k"]) -> CheckedRates:
        return checked_rates(accepted, drawn[places], right, features, right_shares=right_shares, seed=seed)

    return rates_of


def _answer_shares(judged: JudgedRows) -> Float[np.ndarray, " n"]:
    """[N] the share of a prompt's rows that give the row's answer; 0 without one."""
    copies = np.bincount(judged.unit)[judged.unit]
    sizes = np.bincount(judged.group)[judged.group]
    shares: np.ndarray = np.where(judged.answered, copies / sizes, 0.0)
    return shares
