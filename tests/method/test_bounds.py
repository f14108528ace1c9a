"""Bounds of a verifier's error rates, beside a search of every choice of right answers."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from geoalign.method.bounds import Bounds, false_negative_bounds, false_positive_bounds, judged_units, least_errors


def units_of(rows):
    """Rows of (prompt, answer or None, response, accepted, known truth or None)."""
    names = [
        (prompt, answer if answer is not None else ("response", response)) for prompt, answer, response, *_ in rows
    ]
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return judged_units(
        accepted=torch.tensor([row[3] for row in rows], dtype=torch.bool),
        group=torch.tensor([row[0] for row in rows], dtype=torch.long),
        unit=torch.tensor([number[name] for name in names], dtype=torch.long),
        answered=torch.tensor([row[1] is not None for row in rows], dtype=torch.bool),
        truth=torch.tensor([math.nan if row[4] is None else float(row[4]) for row in rows], dtype=torch.double),
    )


def choices_of(rows):
    """Every way in which the rows can be right: of the answers to a prompt one or none, other responses freely."""
    prompts = sorted({row[0] for row in rows})
    options = []
    for prompt in prompts:
        answers = {row[1] for row in rows if row[0] == prompt and row[1] is not None}
        responses = sorted({row[2] for row in rows if row[0] == prompt and row[1] is None})
        free = itertools.product([False, True], repeat=len(responses))
        options.append([
            (right, dict(zip(responses, chosen, strict=True)))
            for right, chosen in itertools.product([None, *sorted(answers)], list(free))
        ])  # fmt: skip
    for chosen in itertools.product(*options):
        of = dict(zip(prompts, chosen, strict=True))
        truth = [of[row[0]][0] == row[1] if row[1] is not None else of[row[0]][1][row[2]] for row in rows]
        if all(row[4] is None or row[4] == right for row, right in zip(rows, truth, strict=True)):
            yield truth


def searched(rows):
    """(bounds of the false positive rate, of the false negative rate, least errors) by trying everything."""
    rates, errors = ([], []), []
    for truth in choices_of(rows):
        accepted = [row[3] for row in rows]
        wrong = [seen for seen, right in zip(accepted, truth, strict=True) if not right]
        right = [not seen for seen, right in zip(accepted, truth, strict=True) if right]
        errors.append(sum(wrong) + sum(right))
        for found, of in zip(rates, (wrong, right), strict=True):
            found += [Fraction(sum(of), len(of))] if of else []
    bounds = [(float(min(found)), float(max(found))) if found else None for found in rates]
    return bounds, min(errors)


def same(bounds, expected):
    if expected is None:
        return math.isnan(bounds.low) and math.isnan(bounds.high)
    return (bounds.low, bounds.high) == pytest.approx(expected, abs=1e-12)


row = st.tuples(st.integers(0, 2), st.sampled_from([None, "a", "b", "c"]), st.integers(0, 1), st.booleans())


@given(st.lists(row, min_size=1, max_size=9))
def test_no_choice_of_right_answers_lies_outside_and_some_reach_the_bounds(rows):
    rows = [(*each, None) for each in rows]
    (positive, negative), errors = searched(rows)
    units = units_of(rows)
    assert same(false_positive_bounds(units), positive)
    assert same(false_negative_bounds(units), negative)
    assert least_errors(units) == errors


@given(st.lists(row, min_size=1, max_size=8), st.data())
def test_known_truths_leave_fewer_choices(rows, data):
    truths = list(choices_of([(*each, None) for each in rows]))
    truth = data.draw(st.sampled_from(truths))
    shown = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    known = [(*each, right if show else None) for each, right, show in zip(rows, truth, shown, strict=True)]
    (positive, negative), errors = searched(known)
    units = units_of(known)
    assert same(false_positive_bounds(units), positive)
    assert same(false_negative_bounds(units), negative)
    assert least_errors(units) == errors


def test_two_rewarded_answers_cannot_both_be_right():
    # "a" is rewarded 3 times, "b" twice, "c" refused 5 times. If "a" is right: 2 of 7 wrong rows were rewarded; "b": 3
    # of 8; none: 5 of 10; "c": 5 of 5. At least two verdicts are errors, as with "a".
    rows = [(0, "a", 0, True, None)] * 3 + [(0, "b", 0, True, None)] * 2 + [(0, "c", 0, False, None)] * 5
    units = units_of(rows)
    assert same(false_positive_bounds(units), (2 / 7, 1))
    assert same(false_negative_bounds(units), (0, 1))
    assert least_errors(units) == 2


def test_where_no_row_can_be_of_a_class_its_rate_has_no_bounds():
    right = units_of([(0, "a", 0, True, True), (0, "a", 0, False, None)])
    assert same(false_positive_bounds(right), None)
    assert same(false_negative_bounds(right), (0.5, 0.5))
    wrong = units_of([(0, "a", 0, True, False)])
    assert same(false_negative_bounds(wrong), None)
    nothing = units_of([])
    assert same(false_positive_bounds(nothing), None)
    assert least_errors(nothing) == 0


def test_a_prompt_with_two_answers_known_to_be_right_proves_nothing_more():
    # Prompt 0 breaks the rule, so that its third row may be right or wrong by itself; prompt 1 is bounded as ever.
    broken = [(0, "a", 0, True, True), (0, "b", 0, True, True), (0, "c", 0, False, None)]
    assert same(false_positive_bounds(units_of(broken)), (0, 0))
    assert same(false_negative_bounds(units_of(broken)), (0, 1 / 3))
    # One answer known to be right in one row and wrong in another.
    mixed = [(0, "a", 0, True, True), (0, "a", 0, True, False), (0, "a", 0, False, None)]
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
