"""The page's own programs alone, in a blank page: differences against a reference, formulas by their elements."""

import numpy as np
import pytest

from geoalign.audit.page.page import ASSETS


@pytest.fixture(scope="module")
def blank(chromium):
    """Calls a function of the page's programs with arguments and returns its value."""
    temml = (ASSETS / "temml" / "temml.min.js").read_text(encoding="utf-8")
    programs = "\n".join(
        (ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in ("dom", "diff", "formulas", "texts")
    )
    context = chromium.new_context()
    page = context.new_page()
    page.set_content("<!doctype html><title>blank</title>")
    page.add_script_tag(content=f"{temml}\n{programs}")
    yield page
    context.close()


DIFF = """([left, right, work]) => {
  const marks = diff(Int32Array.from(left), Int32Array.from(right), work ?? WORK);
  return { left: [...marks.left], right: [...marks.right], exact: marks.exact };
}"""


def longest_common(left, right):
    table = np.zeros((len(left) + 1, len(right) + 1), dtype=int)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1, j + 1] = table[i, j] + 1 if a == b else max(table[i, j + 1], table[i + 1, j])
    return int(table[-1, -1])


def kept(tokens, marks):
    return [token for token, mark in zip(tokens, marks, strict=True) if not mark]


def test_what_is_not_marked_is_the_same_on_both_sides_and_as_much_as_can_be(blank):
    generator = np.random.default_rng(3)
    blank.evaluate("() => { drownIslands = () => {}; }")
    for trial in range(40):
        letters = int(generator.integers(1, 8))
        left, right = (generator.integers(0, letters, int(generator.integers(0, 40))).tolist() for _ in range(2))
        found = blank.evaluate(DIFF, [left, right])
        assert found["exact"]
        assert kept(left, found["left"]) == kept(right, found["right"]), trial
        assert len(kept(left, found["left"])) == longest_common(left, right), (left, right)


def test_long_texts_without_anything_in_common_end_within_the_budget(blank):
    left, right = list(range(12_000)), list(range(20_000, 32_000))
    found = blank.evaluate(DIFF, [left, right])
    assert not found["exact"]
    assert set(found["left"]) == set(found["right"]) == {1}


def parts(page, text):
    return page.evaluate(
        "text => formulaParts(text).map(({ text, tex, display }) => [text, tex ?? null, display ?? null])", text
    )


def test_formulas_are_found_where_people_write_them(blank):
    found = parts(blank, r"so $x$, \(y\), \[z\], $$w$$ and \begin{cases} a \end{cases} end")
    assert [(tex, display) for _, tex, display in found if tex is not None] == [
        ("x", False), ("y", False), ("z", True), ("w", True), ("\\begin{cases} a \\end{cases}", True),
    ]  # fmt: skip
    assert "".join(text for text, _, _ in found) == r"so $x$, \(y\), \[z\], $$w$$ and \begin{cases} a \end{cases} end"
    for money in ("it costs $5 and $10.", "US$ 3 or US$ 4", "a \\$5 note, b \\$6", "$\n$", "from $100 to $200"):
        assert all(tex is None for _, tex, _ in parts(blank, money)), money


MADE = """([tex, display]) => { const made = formula(tex, display);
  return made && [...new Set([made, ...made.querySelectorAll('*')].map((node) => node.localName))].sort(); }"""


@pytest.mark.parametrize(
    ("tex", "element"),
    [
        (r"\frac{1}{2}", "mfrac"), (r"\sqrt[3]{x}", "mroot"), (r"x_1^2", "msubsup"), (r"\sum_{i=1}^n i", "munderover"),
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", "mtable"), (r"\text{if } x > 0", "mtext"),
        (r"\begin{align*} a &= b \\ &= c \end{align*}", "mtr"), (r"\boxed{42}", "mn"), (r"\mathbb{R}", "mi"),
        (r"\left( \frac{a}{b} \right)", "mfrac"), (r"\vec{AB}", "mover"), (r"90^\circ", "msup"),
    ],
)  # fmt: skip
def test_formulas_become_mathml(blank, tex, element):
    assert element in blank.evaluate(MADE, [tex, True])


@pytest.mark.parametrize(
    "tex",
    [
        r"\href{javascript:alert(1)}{x}", r"\url{http://a}", r"\includegraphics{a.png}", r"\htmlClass{a}{x}",
        r"\htmlStyle{color:red}{x}", r"\def\a{x}\a", r"\gdef\a{x}", r"\newcommand{\a}{x}", r"\let\a\b", r"\frac{1}",
        r"\notacommand", "{" * 60 + "x" + "}" * 60, r"\begin{array", "", " ",
    ],
)  # fmt: skip
def test_what_may_not_be_a_formula_stays_source(blank, tex):
    assert blank.evaluate(MADE, [tex, False]) is None
