"""The page's own programs alone, in a blank page: differences against a reference, formulas by their marks."""

import numpy as np
import pytest

from geoalign.audit.page.page import ASSETS


@pytest.fixture(scope="module")
def blank(chromium):
    """Calls a function of the page's programs with arguments and returns its value."""
    programs = [(ASSETS / name).read_text(encoding="utf-8") for name in ("dom.js", "diff.js", "texts.js")]
    context = chromium.new_context()
    page = context.new_page()
    page.set_content("<!doctype html><title>blank</title>")
    page.add_script_tag(content="\n".join(programs))
    yield page
    context.close()


DIFF = """([left, right, work]) => {
  const marks = diff(Int32Array.from(left), Int32Array.from(right), work ?? WORK);
  return { left: [...marks.left], right: [...marks.right], exact: marks.exact };
}"""


def longest_common(left, right):
    """The length of the longest common subsequence; cell (i, j) is that of the first i and the first j."""
    table = np.zeros((len(left) + 1, len(right) + 1), dtype=int)
    for i, a in enumerate(left, start=1):
        for j, b in enumerate(right, start=1):
            if a == b:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    return int(table[-1, -1])


def kept(tokens, marks):
    return [token for token, mark in zip(tokens, marks, strict=True) if not mark]


def test_what_is_not_marked_is_the_same_on_both_sides_and_as_much_as_can_be(blank):
    generator = np.random.default_rng(3)
    blank.evaluate("() => { drownIslands = () => {}; }")

    def text(letters):
        length = int(generator.integers(0, 40))
        return generator.integers(0, letters, length).tolist()

    for trial in range(40):
        letters = int(generator.integers(1, 8))
        left = text(letters)
        right = text(letters)
        found = blank.evaluate(DIFF, [left, right])
        assert found["exact"]
        assert kept(left, found["left"]) == kept(right, found["right"]), trial
        assert len(kept(left, found["left"])) == longest_common(left, right), (left, right)


def test_long_texts_without_anything_in_common_end_within_the_budget(blank):
    left = list(range(12_000))
    right = list(range(20_000, 32_000))
    found = blank.evaluate(DIFF, [left, right])
    assert not found["exact"]
    assert set(found["left"]) == set(found["right"]) == {1}


def test_formulas_are_found_where_people_write_them_and_money_is_none(blank):
    formulas = "text => formulaParts(text).filter((part) => part.formula).map((part) => part.text)"
    assert blank.evaluate(formulas, r"so $x$, \(y\), \[z\] and $$w$$ end") == ["$x$", r"\(y\)", r"\[z\]", "$$w$$"]
    for money in ("it costs $5 and $10.", "US$ 3 or US$ 4", "a \\$5 note, b \\$6", "$\n$", "from $100 to $200"):
        assert blank.evaluate(formulas, money) == [], money
