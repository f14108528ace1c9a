"""What verdicts alone prove of a verifier's error rates: bounds without a model of its errors.

A unit is the rows of one answer to a prompt, or of one response where there is no answer. Its rows are right together,
and of answers that exclude each other at most one is right: which one, or none, nobody knows. Every assignment of
truths that this allows gives a false positive rate and a false negative rate (where some answers are wrong, or right);
the bounds are the least and the greatest of them, so that they hold for every verifier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# A step of the search that lowers the rate by less is rounding.
_STEP = 1e-12


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value that a rate can have; NaN where no assignment of truths gives it a value."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class JudgedUnits:
    """U units with the verdicts on their rows.

    Attributes:
        accepted: [U] how many of the unit's rows were rewarded.
        refused: [U] how many were not.
        exclusive_set: [U] of the units of one set at most one is right.
        maybe_right: [U] whether the unit may be right.
        maybe_wrong: [U] whether it may be wrong.
    """

    accepted: Float[Tensor, " u"]
    refused: Float[Tensor, " u"]
    exclusive_set: Int[Tensor, " u"]
    maybe_right: Bool[Tensor, " u"]
    maybe_wrong: Bool[Tensor, " u"]

    @property
    def rows(self) -> Float[Tensor, " u"]:
        """[U] the number of each unit's rows."""
        return self.accepted + self.refused

    def cheapest_assignment(self, if_right: Float[Tensor, " u"], if_wrong: Float[Tensor, " u"]) -> Bool[Tensor, " u"]:
        """[U] which units are right in the assignment with the least sum of `if_right` and `if_wrong`.

        All begin as wrong; then in each exclusive set the unit that lowers the sum most, if any, is made right.
        """
        change = (if_right - if_wrong).masked_fill(~self.maybe_right, torch.inf)
        change = change.masked_fill(~self.maybe_wrong, -torch.inf)
        lowest = change.new_zeros(self._set_count).scatter_reduce(0, self.exclusive_set, change, "amin")
        lowers_most = (change < 0) & (change == lowest[self.exclusive_set])
        # Of several that lower it equally the first.
        place = torch.arange(len(change))
        first = torch.full((len(lowest),), len(change))
        first = first.scatter_reduce(0, self.exclusive_set[lowers_most], place[lowers_most], "amin")
        return lowers_most & (first[self.exclusive_set] == place)

    @property
    def _set_count(self) -> int:
        return int(self.exclusive_set.max()) + 1 if len(self.exclusive_set) else 0


def judged_units(
    accepted: Bool[Tensor, " n"],
    group: Int[Tensor, " n"],
    unit: Int[Tensor, " n"],
    excludes: Bool[Tensor, " n"],
    truth: Float[Tensor, " n"],
) -> JudgedUnits:
    """The units of N rows, each with a verdict.

    Rows without an answer exclude nothing, nor do answers that may be right beside others: each such unit may be right
    or wrong whatever the others are. Known truths fix their unit, and where an answer is known to be right those that
    it excludes are wrong. A prompt on which known truths break the rule (two right answers that exclude each other, or
    one answer right and wrong) proves nothing beyond them: each of its rows is then a unit of its own.

    Args:
        accepted: the verdicts.
        unit: rows with one number are of one answer (or response) to one prompt.
        excludes: whether the unit is an answer that excludes the other such answers to its prompt.
        truth: 1 or 0 where it is known, NaN elsewhere.
    """
    known_right = truth == 1
    known_wrong = truth == 0
    groups = int(group.max()) + 1 if len(group) else 0
    units = int(unit.max()) + 1 if len(unit) else 0
    right_of_unit = _any_per_label(known_right, unit, units)
    broken_unit = right_of_unit & _any_per_label(known_wrong, unit, units)
    group_of_unit = torch.zeros(units, dtype=torch.long).index_put((unit,), group)
    unit_excludes = _any_per_label(excludes, unit, units)
    right_answers = torch.bincount(group_of_unit[right_of_unit & unit_excludes], minlength=groups)
    broken = _any_per_label(broken_unit, group_of_unit, groups) | (right_answers > 1)

    alone = broken[group]
    exclusive = excludes & ~alone
    row = torch.arange(len(unit))
    label = torch.where(alone, units + row, unit).unique(return_inverse=True)[1]
    count = int(label.max()) + 1 if len(label) else 0
    of_label = torch.zeros(count, dtype=torch.long)
    exclusive_set = of_label.index_put((label,), torch.where(exclusive, group, groups + label))
    right = _any_per_label(known_right, label, count)
    wrong = _any_per_label(known_wrong, label, count)
    taken = _any_per_label(right, exclusive_set, groups + count)[exclusive_set]
    return JudgedUnits(
        accepted=torch.bincount(label[accepted], minlength=count).double(),
        refused=torch.bincount(label[~accepted], minlength=count).double(),
        exclusive_set=exclusive_set.unique(return_inverse=True)[1],
        maybe_right=~wrong & (right | ~taken),
        maybe_wrong=~right,
    )


def false_positive_bounds(units: JudgedUnits) -> Bounds:
    """Of the rows that are wrong, the share that was accepted."""
    return _bounds(units, hit=units.accepted, among_right=False)


def false_negative_bounds(units: JudgedUnits) -> Bounds:
    """Of the rows that are right, the share that was refused."""
    return _bounds(units, hit=units.refused, among_right=True)


def least_errors(units: JudgedUnits) -> int:
    """The fewest verdicts that must be errors, whatever is right."""
    right = units.cheapest_assignment(if_right=units.refused, if_wrong=units.accepted)
    return int(torch.where(right, units.refused, units.accepted).sum())


def _bounds(units: JudgedUnits, *, hit: Float[Tensor, " u"], among_right: bool) -> Bounds:
    """The bounds of the share of `hit` among the rows of right (or wrong) units."""
    missed = units.rows - hit
    low = _least_ratio(units, hit, among_right=among_right)
    high = 1 - _least_ratio(units, missed, among_right=among_right)
    return Bounds(low, high)


def _least_ratio(units: JudgedUnits, hit: Float[Tensor, " u"], *, among_right: bool) -> float:
    """The least of sum hit / sum rows over the units that an assignment makes right (or wrong), by Dinkelbach (1967).

    An assignment with sum hit - r sum rows < 0 has a ratio below r; the one that makes this sum least gives the next r,
    until none is below. Exclusive sets are independent of each other, so the least sum is found set by set.
    """
    possible = units.maybe_right if among_right else units.maybe_wrong
    if not bool((possible & (units.rows > 0)).any()):
        return math.nan
    ratio = 1.0
    free = torch.zeros_like(hit)
    while True:
        cost = hit - ratio * units.rows
        if among_right:
            counted = units.cheapest_assignment(if_right=cost, if_wrong=free)
        else:
            counted = ~units.cheapest_assignment(if_right=free, if_wrong=cost)
        rows = float(units.rows[counted].sum())
        lower = float(hit[counted].sum()) / rows if rows else ratio
        if lower > ratio - _STEP:
            return ratio
        ratio = lower


def _any_per_label(rows: Bool[Tensor, " n"], label: Int[Tensor, " n"], size: int) -> Bool[Tensor, " m"]:
    """[M] whether any row of each label is among `rows`."""
    return torch.bincount(label[rows], minlength=size) > 0
