"""The examples of docs/rewards.md: what its tables and its code say is so."""

import re
from pathlib import Path

import pytest

from geoalign.answers import normal_form

PAGE = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text(encoding="utf-8")


def rows(header: str) -> list[list[str]]:
    """The cells of the table whose first line begins so."""
    table = PAGE[PAGE.index(f"\n| {header} |") :].split("\n\n")[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def examples(cell: str) -> list[str]:
    """The texts in backticks of a cell."""
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize(("what", "gold", "correct", "wrong"), rows("what | gold answer"))
def test_examples_of_equal_answers_are_judged_so(reward, what, gold, correct, wrong):
    [expected] = examples(gold)
    assert reward.score([rf"\boxed{{{answer}}}" for answer in examples(correct)], [expected]) == [1.0]
    assert reward.score([rf"\boxed{{{answer}}}" for answer in examples(wrong)], [expected]) == [0.0]


@pytest.mark.parametrize(("spellings", "form"), rows("spellings"))
def test_spellings_have_the_normal_form_that_stands_there(spellings, form):
    assert {normal_form(spelling) for spelling in examples(spellings)} == set(examples(form))


def test_the_code_gives_what_its_comment_says():
    [code] = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "boxed_answers" in block]
    setup, call, comment = code.strip().replace("\n\n", "\n").splitlines()
    names = {}
    exec(setup, names)
    assert eval(call, names) == eval(comment.removeprefix("# "))
