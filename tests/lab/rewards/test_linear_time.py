"""Answers that are long on purpose: reading and comparing them takes time in proportion to their length."""

import time

import pytest

from geoalign.lab.rewards.answers import final_answer, quick_verdict, values

# What was quadratic took eight seconds at four times the length, and half a second at this one.
LENGTH = 12_000
SECONDS = 0.4
PIECES = [
    "\\boxed{", "\\boxed ", "\\", "{", "}", "\\{", "$", ". ", ".\t", " ", "\n", "1", "1,", "1,000,", "{,}000", "a_1 ",
    "\\frac", "\\frac{1}", "(", "(1,", "[1,", ")", "1/2,", "~", "\\!", " \\!", "\\left", "1e", "x=", "x_", "\\text{",
    "^{", "{a}", "{{a}}", "1.", "\\,", "$1,$", "-", "\\times10^", "x ( ", "\\_x{",
]  # fmt: skip


@pytest.mark.parametrize("piece", [*PIECES, "deep brackets"])
def test_no_answer_takes_long(piece):
    run = piece * (LENGTH // len(piece))
    deep = "(1," * (LENGTH // 4) + ")" * (LENGTH // 4)
    for text in [deep] if piece == "deep brackets" else [run, f"\\boxed{{{run}}}", f"1{run}"]:
        for read in (final_answer, lambda text: quick_verdict("1/2", text), lambda text: values(text, "\\q=1")):
            started = time.process_time()
            read(text)
            assert time.process_time() - started < SECONDS
