"""Bounds of a verifier's error rates, beside a search of every choice of right answers."""

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from geoalign.method.bounds import Bounds, false_negative_bounds, false_positive_bounds, judged_units, least_errors


class Row(NamedTuple):
    """One judged response to a prompt; rows of a prompt with one answer, or with one response, are right together."""

    prompt: int
    answer: str | None
    response: int
    accepted: bool
    truth: bool | None = None  # None: nobody knows

    @property
    def name(self):
        """What is right or wrong as a whole: the prompt's answer, or without an answer its response."""
        named_by = ("response", self.response) if self.answer is None else self.answer
        return (self.prompt, named_by)


def units_of(rows):
    """The rows as the bounds take them."""
    names = [row.name for row in rows]
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    truths = [math.nan if row.truth is None else float(row.truth) for row in rows]
    return judged_units(
        accepted=torch.tensor([row.accepted for row in rows], dtype=torch.bool),
        group=torch.tensor([row.prompt for row in rows], dtype=torch.long),
        unit=torch.tensor([number[name] for name in names], dtype=torch.long),
        excludes=torch.tensor([row.answer is not None for row in rows], dtype=torch.bool),
        truth=torch.tensor(truths, dtype=torch.double),
    )


def right_names_of_prompt(rows):
    """Every set of names that can be right on one prompt: of its answers one or none, other responses freely."""
    answers = sorted({row.name for row in rows if row.answer is not None})
    responses = sorted({row.name for row in rows if row.answer is None})
    right_answers = [(), *((answer,) for answer in answers)]
    right_responses = [
        chosen for size in range(len(responses) + 1) for chosen in itertools.combinations(responses, size)
    ]
    return [{*some, *others} for some, others in itertools.product(right_answers, right_responses)]


def choices_of(rows):
    """Every way in which the rows can be right that agrees with the truths that are known."""
    prompts = sorted({row.prompt for row in rows})
    options = [right_names_of_prompt([row for row in rows if row.prompt == prompt]) for prompt in prompts]
    for chosen in itertools.product(*options):
        right_names = set().union(*chosen)
        truth = [row.name in right_names for row in rows]
        known = [right == row.truth for row, right in zip(rows, truth, strict=True) if row.truth is not None]
        if all(known):
            yield truth


def least_and_greatest(rates):
    """None where no choice of right answers has such a rate."""
    return (float(min(rates)), float(max(rates))) if rates else None


def searched(rows):
    """((bounds of the false positive rate, of the false negative rate), least errors) by trying everything."""
    false_positive_rates = []
    false_negative_rates = []
    errors = []
    for truth in choices_of(rows):
        false_positives = [row.accepted for row, right in zip(rows, truth, strict=True) if not right]
        false_negatives = [not row.accepted for row, right in zip(rows, truth, strict=True) if right]
        errors.append(sum(false_positives) + sum(false_negatives))
        if false_positives:
            false_positive_rates.append(Fraction(sum(false_positives), len(false_positives)))
        if false_negatives:
            false_negative_rates.append(Fraction(sum(false_negatives), len(false_negatives)))
    bounds = (least_and_greatest(false_positive_rates), least_and_greatest(false_negative_rates))
    return bounds, min(errors)


def same(bounds, expected):
    if expected is None:
        return math.isnan(bounds.low) and math.isnan(bounds.high)
    return (bounds.low, bounds.high) == pytest.approx(expected, abs=1e-12)


any_row = st.builds(
    Row,
    prompt=st.integers(0, 2),
    answer=st.sampled_from([None, "a", "b", "c"]),
    response=st.integers(0, 1),
    accepted=st.booleans(),
    truth=st.none(),
)


@given(st.lists(any_row, min_size=1, max_size=9))
def test_no_choice_of_right_answers_lies_outside_and_some_reach_the_bounds(rows):
    (positive, negative), errors = searched(rows)
    units = units_of(rows)
    assert same(false_positive_bounds(units), positive)
    assert same(false_negative_bounds(units), negative)
    assert least_errors(units) == errors


@given(st.lists(any_row, min_size=1, max_size=8), st.data())
def test_known_truths_leave_fewer_choices(rows, data):
    truth = data.draw(st.sampled_from(list(choices_of(rows))))
    shown = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    truth_if_shown = [right if show else None for right, show in zip(truth, shown, strict=True)]
    known = [row._replace(truth=right) for row, right in zip(rows, truth_if_shown, strict=True)]
    (positive, negative), errors = searched(known)
    units = units_of(known)
    assert same(false_positive_bounds(units), positive)
    assert same(false_negative_bounds(units), negative)
    assert least_errors(units) == errors


def test_two_rewarded_answers_cannot_both_be_right():
    # "a" is rewarded 3 times, "b" twice, "c" refused 5 times. If "a" is right: 2 of 7 wrong rows were rewarded; "b": 3
    # of 8; none: 5 of 10; "c": 5 of 5. At least two verdicts are errors, as with "a".
    rewarded_a = [Row(0, "a", 0, accepted=True)] * 3
    rewarded_b = [Row(0, "b", 0, accepted=True)] * 2
    refused_c = [Row(0, "c", 0, accepted=False)] * 5
    units = units_of(rewarded_a + rewarded_b + refused_c)
    assert same(false_positive_bounds(units), (2 / 7, 1))
    assert same(false_negative_bounds(units), (0, 1))
    assert least_errors(units) == 2


def test_where_no_row_can_be_of_a_class_its_rate_has_no_bounds():
    right = units_of([
        Row(0, "a", 0, accepted=True, truth=True),
        Row(0, "a", 0, accepted=False),
    ])  # fmt: skip
    assert same(false_positive_bounds(right), None)
    assert same(false_negative_bounds(right), (0.5, 0.5))
    wrong = units_of([Row(0, "a", 0, accepted=True, truth=False)])
    assert same(false_negative_bounds(wrong), None)
    nothing = units_of([])
    assert same(false_positive_bounds(nothing), None)
    assert least_errors(nothing) == 0


def test_a_prompt_with_two_answers_known_to_be_right_proves_nothing_more():
    # Prompt 0 breaks the rule, so that its third row may be right or wrong by itself; prompt 1 is bounded as ever.
    broken = [
        Row(0, "a", 0, accepted=True, truth=True),
        Row(0, "b", 0, accepted=True, truth=True),
        Row(0, "c", 0, accepted=False),
    ]
    assert same(false_positive_bounds(units_of(broken)), (0, 0))
    assert same(false_negative_bounds(units_of(broken)), (0, 1 / 3))
    # One answer known to be right in one row and wrong in another.
    mixed = [
        Row(0, "a", 0, accepted=True, truth=True),
        Row(0, "a", 0, accepted=True, truth=False),
        Row(0, "a", 0, accepted=False),
    ]
    assert same(false_positive_bounds(units_of(mixed)), (0.5, 1))
    assert same(false_negative_bounds(units_of(mixed)), (0, 0.5))


def test_a_large_table_is_bounded_at_once_and_holds_its_truth():
    draw = torch.Generator().manual_seed(0)
    group = torch.arange(6250).repeat_interleave(8)
    answer = torch.randint(4, (50_000,), generator=draw)
    right = answer == 0
    accepted = right | (torch.rand(50_000, generator=draw) < 0.2)
    unknown = torch.full((50_000,), torch.nan)
    units = judged_units(accepted, group, group * 4 + answer, torch.ones_like(right), unknown)
    bounds = false_positive_bounds(units)
    rate = float(accepted[~right].double().mean())
    assert bounds.low <= rate <= bounds.high
    assert isinstance(bounds, Bounds)
    assert bounds.low > 0.1
