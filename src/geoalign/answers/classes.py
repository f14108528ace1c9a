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

    def equal(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """For each pair whether it is one answer; False, too, where it could not be told."""


class _Read(NamedTuple):
    """A normal form as name, value and unit: `x=5 cm` is x, 5 and cm."""

    name: str
    value: Fraction | str
    unit: str


def answers_by_class(
    answers: Sequence[str | None], groups: Sequence[Hashable], undecided: Equivalence | None = None
) -> list[str | None]:
    r"""The answers, each as the most frequent spelling of its class of equal answers in its group.

    Equal within a group are: equal normal forms; numbers of the same value (`0.5`, `\frac{1}{2}`); an answer with a
    unit or name and one without (`5 cm`, `5`; `x=5`, `5`), unless the group has it with two of them; and what
    `undecided` calls equal of the rest, which is asked in order of frequency, each class by its most frequent answer.
    Two different numbers, letters or words are different, and nobody is asked. The result does not depend on the order
    of the rows.
    """
    forms = [None if answer is None else normal_form(answer) or None for answer in answers]
    # Integers in their normal form are equal or not, as they stand: most groups have nothing else.
    spelt = {form for form in forms if form is not None and not INTEGER.fullmatch(form)}
    mixed = {group for group, form in zip(groups, forms, strict=True) if form in spelt}
    counts: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for group, form in zip(groups, forms, strict=True):
        if form is not None and group in mixed:
            counts[group][form] += 1
    classes = {group: _merged(found) for group, found in counts.items()}
    if undecided is not None:
        _merge_undecided(classes, counts, undecided)
    named = {(group, form): members[0] for group, several in classes.items() for members in several for form in members}
    return [None if form is None else named.get((group, form), form) for group, form in zip(groups, forms, strict=True)]


def _merged(counts: Counter[str]) -> list[list[str]]:
    """The classes of one group that need no computer algebra, the most frequent first, and so their members."""
    read = {form: _read(form) for form in counts}
    bare = {said.value for said in read.values() if not said.unit}
    read = {form: _without_percent(said, bare) for form, said in read.items()}
    names: dict[Fraction | str, set[str]] = defaultdict(set)
    units: dict[Fraction | str, set[str]] = defaultdict(set)
    for name, value, unit in read.values():
        names[value] |= {name} - {""}
        units[value] |= {unit} - {""}
    classes: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for form in sorted(counts, key=lambda form: (-counts[form], form)):
        name, value, unit = read[form]
        # What only one name or unit goes with may go without.
        told_name = name if len(names[value]) > 1 else ""
        told_unit = unit if len(units[value]) > 1 else ""
        classes[value, told_name, told_unit].append(form)
    return list(classes.values())


def _without_percent(said: _Read, bare: Collection[Fraction | str]) -> _Read:
    """A percentage as its hundredth, unless the group gives the same number, of 1 or more, without the sign."""
    if said.unit != "%" or isinstance(said.value, str):
        return said
    if abs(said.value) >= 1 and said.value in bare:
        return said
    return _Read(said.name, said.value / 100, "")


@lru_cache(maxsize=65536)
def _read(form: str) -> _Read:
    named = _NAMED.fullmatch(form)
    name, said = (named[1], normal_form(named[2])) if named is not None else ("", form)
    number, unit = split_unit(said)
    # A letter may be a symbol: `6 m` is 6 times m, too.
    if len(unit) == 1 and unit != "%":
        number, unit = said, ""
    value = exact_value(normal_form(number))
    return _Read(name, number if value is None else value, unit)


def _merge_undecided(
    classes: dict[Hashable, list[list[str]]], counts: dict[Hashable, Counter[str]], undecided: Equivalence
) -> None:
    """Merges classes whose first members are called equal, a round for each rank of frequency over all groups."""
    done: dict[Hashable, list[list[str]]] = {group: [] for group in classes}
    while any(classes.values()):
        heads = {group: waiting.pop(0) for group, waiting in classes.items() if waiting}
        asked = [
            (group, place, (heads[group][0], other[0]))
            for group in heads
            for place, other in enumerate(classes[group])
            if _is_undecided(heads[group][0], other[0])
        ]
        said = undecided.equal([pair for _, _, pair in asked])
        joined: dict[Hashable, set[int]] = defaultdict(set)
        for (group, place, _), equal in zip(asked, said, strict=True):
            if equal:
                heads[group] += classes[group][place]
                joined[group].add(place)
        for group, head in heads.items():
            done[group].append(head)
            classes[group] = [other for place, other in enumerate(classes[group]) if place not in joined[group]]
    classes |= done


def _is_undecided(one: str, other: str) -> bool:
    """Whether two different forms may still be one answer."""
    values = [exact_value(form) for form in (one, other)]
    if None not in values or {"%"} & {split_unit(form)[1] for form in (one, other)}:
        return False
    names = [found[1] for form in (one, other) if (found := _NAMED.fullmatch(form)) is not None]
    if len(set(names)) > 1 or any(choice_letter(form) or form.isalpha() for form in (one, other)):
        return False
    return is_mathematical(one) and is_mathematical(other)
