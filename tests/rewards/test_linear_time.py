"""Answers that are long on purpose: reading and comparing them takes time in proportion to their length."""

import time

import pytest

from geoalign.rewards.answers import final_answer, quick_verdict, tidy
from geoalign.rewards.boxed import last_boxed
from geoalign.rewards.notation import tokens, values

LENGTH = 50_000
SECONDS = 2.0  # ten times what the slowest takes; what was quadratic took longer
PIECES = [
    "\\boxed{", "\\boxed ", "\\", "{", "}", "\\{", "$", ". ", ".\t", " ", "\n", "1", "1,", "1,000,", "{,}000", "a_1 ",
    "\\frac", "\\frac{1}", "(", "(1,", "[1,", ")", "1/2,", "~", "\\!", " \\!", "\\left", "1e", "x=", "x_", "\\text{",
    "^{", "{a}", "{{a}}", "1.", "\\,", "$1,$", "-", "\\times10^", "x ( ", "\\_x{",
]  # fmt: skip


def long_answers(piece: str) -> list[str]:
    run = piece * (LENGTH // len(piece))
    return [run, f"\\boxed{{{run}}}", f"1{run}", f"{run}1", f"\\q_{{{run} = 1"]


@pytest.mark.parametrize("piece", [*PIECES, "deep brackets"])
def test_no_answer_takes_long(piece):
    deep = "(1," * (LENGTH // 4) + ")" * (LENGTH // 4)
    for text in [deep] if piece == "deep brackets" else long_answers(piece):
        for read in (
            final_answer, last_boxed, tidy, tokens, lambda text: quick_verdict("1/2", text),
            lambda text: quick_verdict(text, f"{text}1"), lambda text: values(text, "\\q=1"),
        ):  # fmt: skip
            started = time.process_time()
            read(text)
            assert time.process_time() - started < SECONDS
