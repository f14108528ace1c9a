"""Error rates of each verifier: what its verdicts prove, and what rows say that were drawn at random and checked."""

from __future__ import annotations

import numpy as np
import pandas
import torch
from jaxtyping import Float

from geoalign.audit.several_verifiers.judged_rows import JudgedRows
from geoalign.checks.rates import CheckedRates, checked_rates, rate_by_wilson
from geoalign.method.bounds import Bounds, false_negative_bounds, false_positive_bounds, judged_units


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
    return {"false_positive_rate": false_positive_bounds(units), "false_negative_rate": false_negative_bounds(units)}


def rates_by_checks(judged: JudgedRows, checked: pandas.Series, *, seed: int) -> dict[str, CheckedRates]:
    """Both error rates of each verifier by the rows that were checked; of one that judged none of these nothing.

    The rates are those in the whole file. Of a verifier that judged drawn rows alone no prediction helps: the labels of
    those that were checked are all that there is. Nor does it predict the labels for the others: the checked rows are
    among those that it judged, so a prediction from it would differ between checked rows and all rows.

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
        if name in judged.drawn:
            found[name] = _rates_of_labels(rows.loc[labels.index, name] == 1, labels.astype(bool))
            continue
        others = rows.drop(columns=list({name, *judged.drawn}))
        found[name] = checked_rates(
            accepted=rows[name].to_numpy() == 1,
            checked=rows.index.get_indexer(labels.index),
            right=labels.to_numpy(dtype=bool),
            features=np.column_stack([others.fillna(0.5).to_numpy(), shares[has]]),
            right_shares=others.mean().dropna().tolist(),
            seed=seed,
        )
    return found


def _rates_of_labels(accepted: pandas.Series, right: pandas.Series) -> CheckedRates:
    """Both error rates by the checked rows alone."""
    return CheckedRates(
        false_positive_rate=rate_by_wilson(accepted[~right].to_numpy()),
        false_negative_rate=rate_by_wilson(~accepted[right].to_numpy()),
    )


def _answer_shares(judged: JudgedRows) -> Float[np.ndarray, " n"]:
    """[N] the share of a prompt's rows that give the row's answer; 0 without one."""
    copies = np.bincount(judged.unit)[judged.unit]
    sizes = np.bincount(judged.group)[judged.group]
    shares: np.ndarray = np.where(judged.answered, copies / sizes, 0.0)
    return shares
