"""Rewards that differ by rounding alone: one value for each verdict, over all files of an audit."""

from __future__ import annotations

from collections.abc import Sequence

import pandas
import torch
from torch import Tensor

from geoalign.method.ties import tied_rewards

# Rewards that tie only beside far larger ones are one verdict where the rarer of the two has this share of all rewards.
_LEAST_SHARE = 0.05


def rounded_verdicts(rewards: Sequence[float]) -> dict[float, float]:
    """What stands for a reward that differs from another by rounding alone, where rewards are then one or two values.

    A sum of reward functions is 0.7 + 0.2 + 0.1, which is 0.9999999999999999, beside 1. Rewards tie as `denoise` ties
    those of a group, here over all of them. Of those that tie the one that is written shortest stands for the others,
    of equally short ones the lowest. Where more than two values are left, rewards are scores, and stay as they are.

    Args:
        rewards: those of all files; NaN where there is none.

    Returns:
        By reward the other one that stands for it; empty where nothing changes.
    """
    scored = torch.tensor(rewards, dtype=torch.float64)
    scored = scored[~scored.isnan()]
    values, counts = scored.unique(return_counts=True)
    levels = tied_rewards(values, torch.zeros_like(values, dtype=torch.long))
    if len(levels.unique()) == len(values) or not _are_at_most_two(values, levels, counts):
        return {}
    members: dict[float, list[float]] = {}
    for level, value in zip(levels.tolist(), values.tolist(), strict=True):
        members.setdefault(level, []).append(value)
    found = {}
    for together in members.values():
        shortest = min(together, key=lambda value: (len(repr(value)), value))
        found.update({value: shortest for value in together if value != shortest})
    return found


def _are_at_most_two(values: Tensor, levels: Tensor, counts: Tensor) -> bool:
    """Whether values fall into one or two levels, each of equal ones but for rounding.

    Beside a single reward of -1e7 many different ones tie. So the values of either level must tie by their own size, or
    both levels must be common.
    """
    names, level = levels.unique(return_inverse=True)
    if len(names) > 2:
        return False
    rows_of_level = torch.bincount(level, weights=counts.double())
    is_common = float(rows_of_level.min() / rows_of_level.sum()) >= _LEAST_SHARE
    return is_common or len(tied_rewards(values, level).unique()) == len(names)


def without_rounding(numbers: pandas.Series) -> pandas.Series:
    """A column of verdicts with one value for those that differ by rounding alone; scores as they are."""
    numbers = numbers.astype(float)
    return replaced(numbers, rounded_verdicts(numbers.tolist()))


def replaced(numbers: pandas.Series, by: dict[float, float]) -> pandas.Series:
    """The numbers, with another one in the place of those that `by` names."""
    return numbers.replace(by) if by else numbers
