"""What could look like a broken verifier by chance: all orders in which rewards or prompts could stand are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool, Int, Shaped
from scipy.special import gammaln, logsumexp

# What is named must be as rare as this among shuffled rewards.
LEVEL = 0.001


def prompts_come_together(*, found: int, such: int, chosen: int, prompts: int, tests: int) -> bool:
    """Whether chance brings so many prompts of one kind together in more than `LEVEL` of all choices.

    Args:
        found: how many of the chosen prompts are of the kind.
        such: how many of all prompts are.
        chosen: how many prompts are chosen.
        prompts: how many there are.
        tests: how many choices are looked at; they share the level.
    """
    # Takes a third of a second to import, and few files have parts to compare.
    from scipy.stats import hypergeom

    chance = hypergeom.sf(found - 1, prompts, such, chosen)
    return bool(chance * tests > LEVEL)


def verdicts_fit_by_chance(
    accepted: Bool[np.ndarray, " n"], group: Int[np.ndarray, " n"], *, exceptions: int, tests: int
) -> bool:
    """Whether verdicts that are shuffled within their prompts fit a rule as well in more than `LEVEL` of all orders.

    A rule that says the verdict of every row fits one order without exceptions, and at most sum_{j <= e} C(N, j) with
    e of them, of prod_g C(n_g, k_g) orders: n_g rows of the prompt, k_g of them accepted, N rows of prompts with both
    verdicts.

    Args:
        exceptions: e, the rows that the rule gets wrong.
        tests: how many rules are tried; they share the level.
    """
    table = pandas.DataFrame({"group": group, "accepted": accepted})
    by_prompt = table.groupby("group")["accepted"].agg(rows="size", accepted="sum")
    mixed = by_prompt[(by_prompt["accepted"] > 0) & (by_prompt["accepted"] < by_prompt["rows"])]
    if not len(mixed):
        return True
    rows = mixed["rows"].sum()
    log_orders = _log_choose(mixed["rows"].to_numpy(), mixed["accepted"].to_numpy()).sum()
    log_fitting = logsumexp(_log_choose(rows, np.arange(min(exceptions, rows) + 1)))
    return bool(np.log(tests) + log_fitting - log_orders > np.log(LEVEL))


def others_follow_by_chance(value: Shaped[np.ndarray, " n"], group: Int[np.ndarray, " n"], *, tests: int) -> bool:
    """Whether rewards that never differ within a prompt do so by chance in more than `LEVEL` of all orders.

    The first of each prompt's rewards says what the others of the prompt must be. These m others, of which m_v have
    the value v, are shuffled over the file: one of m! / prod_v m_v! orders repeats the first rewards everywhere.

    Args:
        value: [n] the reward of each answer or response; equal within a prompt.
        tests: how many places are looked at; they share the level.
    """
    is_other = pandas.Series(group).duplicated().to_numpy()
    counts = np.unique(value[is_other], return_counts=True)[1]
    log_orders = gammaln(counts.sum() + 1) - gammaln(counts + 1).sum()
    return bool(np.log(tests) - log_orders > np.log(LEVEL))


def _log_choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
