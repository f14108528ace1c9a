"""Equal answers within a prompt: one text for each class of answers that are equal there, whatever their spelling."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

from geoalign.answers.forms import INTEGER, choice_letter, exact_value, is_mathematical, normal_form
from geoalign.answers.units import split_unit

_NAMED = re.compile(r"([A-Za-z](?:_[A-Za-z0-9]|_\{[A-Za-z0-9]+\})?)=([^=<>]+)")


class Equivalence(Protocol):
    """Decides on pairs of answers that no text decides on."""

    def equal(self, pairs: Sequence[tuple[str, str]]) -> Sequence[bool | None]:
        """For each pair whether it is one answer; None where it could not be told."""


class ComparedAnswers(NamedTuple):
    """The answers of some rows, compared within their groups.

    Attributes:
        spelling: the answer of each row in one spelling, as `answers_by_class` gives it.
        undecided: of each row whether its group has two answers of which nobody could tell whether they are one. They
            have two spellings all the same, and nothing follows from that.
    """

    spelling: list[str | None]
    undecided: list[bool]


class _Read(NamedTuple):
    """A normal form as name, value and unit: `x=5 cm` is x, 5 and cm."""

    name: str
    value: Fraction | str
    unit: str


# Groups that are compared together, to the end: where time runs out, it has served whole groups.
_GROUPS_AT_A_TIME = 64

# The normal forms of one answer, the most frequent first.
_Class = list[str]
_Classes = dict[Hashable, list[_Class]]


def answers_by_class(
    answers: Sequence[str | None], groups: Sequence[Hashable], undecided: Equivalence | None = None
) -> list[str | None]:
    r"""The answers, each as the most frequent spelling of its class of equal answers in its group.

    Equal within a group are: equal normal forms; numbers of the same value (`0.5`, `\frac{1}{2}`); an answer with a
    unit or name and one without (`5 cm`, `5`; `x=5`, `5`), unless the group has it with two of them; and what
    `undecided` calls equal of the rest, which is asked in order of frequency, each class by its most frequent answer.
    Two different numbers, letters or words are different, and nobody is asked. The result does not depend on the order
    of the rows.

    Args:
        answers: one for each row, in any spelling; None for a row without one.
        groups: the group of each row.
        undecided: asked about answers that no text decides on; without it they are different.

    Returns:
        A normal form for each row; None for a row without an answer, or with an empty one.
    """
    return compared_answers(answers, groups, undecided).spelling


def compared_answers(
    answers: Sequence[str | None], groups: Sequence[Hashable], undecided: Equivalence | None = None
) -> ComparedAnswers:
    """The answers in one spelling for each class of equal ones, as `answers_by_class` gives them, and where `undecided`
    could not tell whether two of them are equal."""
    forms = [None if answer is None else normal_form(answer) or None for answer in answers]
    counts: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for group, form in zip(groups, forms, strict=True):
        if form is not None:
            counts[group][form] += 1
    classes = {group: _classes_by_text(found) for group, found in counts.items()}
    in_doubt: set[Hashable] = set()
    if undecided is not None:
        several = [group for group, found in classes.items() if len(found) > 1]
        for start in range(0, len(several), _GROUPS_AT_A_TIME):
            part = {group: classes[group] for group in several[start : start + _GROUPS_AT_A_TIME]}
            merged, in_doubt_too = _merged(part, undecided)
            classes |= merged
            in_doubt |= in_doubt_too
    spelling = {(group, form): one[0] for group, found in classes.items() for one in found for form in one}
    return ComparedAnswers(
        spelling=[None if form is None else spelling[group, form] for group, form in zip(groups, forms, strict=True)],
        undecided=[group in in_doubt for group in groups],
    )


def _classes_by_text(counts: Counter[str]) -> list[_Class]:
    """The classes of one group that need no computer algebra, the most frequent first, and so their members."""
    forms = sorted(counts, key=lambda form: (-counts[form], form))
    if all(INTEGER.fullmatch(form) for form in forms):
        return [[form] for form in forms]
    read = [_read(form) for form in forms]
    without_unit = {one.value for one in read if not one.unit}
    read = [_without_percent(one, without_unit) for one in read]
    names: dict[Fraction | str, set[str]] = defaultdict(set)
    units: dict[Fraction | str, set[str]] = defaultdict(set)
    for one in read:
        names[one.value].add(one.name)
        units[one.value].add(one.unit)
    classes: dict[_Read, _Class] = defaultdict(list)
    for form, one in zip(forms, read, strict=True):
        # An answer without a name or unit equals one with it, if the group has that value with a single name or unit.
        name = one.name if len(names[one.value] - {""}) > 1 else ""
        unit = one.unit if len(units[one.value] - {""}) > 1 else ""
        classes[_Read(name, one.value, unit)].append(form)
    return list(classes.values())


def _without_percent(read: _Read, without_unit: Collection[Fraction | str]) -> _Read:
    """A percentage as its hundredth, unless the group gives the same number, of 1 or more, without the sign."""
    if read.unit != "%" or isinstance(read.value, str):
        return read
    if abs(read.value) >= 1 and read.value in without_unit:
        return read
    return _Read(read.name, read.value / 100, "")


@lru_cache(maxsize=65536)
def _read(form: str) -> _Read:
    """What a normal form says, in parts; the value is a number where its text is one."""
    name = ""
    named = _NAMED.fullmatch(form)
    if named is not None:
        name = named[1]
        form = normal_form(named[2])
    number, unit = split_unit(form)
    # A letter may be a symbol: `6 m` is 6 times m, too.
    if len(unit) == 1 and unit != "%":
        number = form
        unit = ""
    value = exact_value(normal_form(number))
    return _Read(name, number if value is None else value, unit)


def _merged(classes: _Classes, undecided: Equivalence) -> tuple[_Classes, set[Hashable]]:
    """The classes of some groups, with those as one whose first members are called equal; and the groups with two first
    members of which it could not be told.

    In each round the most frequent class of every group that is left is compared with all others of its group, so that
    few calls are made for many groups.
    """
    merged: _Classes = defaultdict(list)
    in_doubt: set[Hashable] = set()
    left = classes
    while left:
        asked = [
            (group, first[0], other[0])
            for group, (first, *others) in left.items()
            for other in others
            if _is_undecided(first[0], other[0])
        ]
        equal = undecided.equal([(one, other) for _, one, other in asked])
        joined = {(group, other) for (group, _, other), same in zip(asked, equal, strict=True) if same}
        in_doubt |= {group for (group, _, _), same in zip(asked, equal, strict=True) if same is None}
        later: _Classes = {}
        for group, (first, *others) in left.items():
            members = list(first)
            apart = []
            for other in others:
                if (group, other[0]) in joined:
                    members += other
                else:
                    apart.append(other)
            merged[group].append(members)
            if apart:
                later[group] = apart
        left = later
    return merged, in_doubt


def _is_undecided(one: str, other: str) -> bool:
    """Whether two different forms may still be one answer."""
    forms = (one, other)
    if all(exact_value(form) is not None for form in forms):
        return False
    if any(split_unit(form)[1] == "%" or choice_letter(form) or form.isalpha() for form in forms):
        return False
    names = {named[1] for named in map(_NAMED.fullmatch, forms) if named is not None}
    return len(names) < 2 and all(map(is_mathematical, forms))
