"""Prompts from where they differ."""

import pytest
from dumps import write_lines

from geoalign.audit.prompts import without_beginning
from geoalign.audit.results import read_report

SYSTEM = "system\nPlease reason step by step, and put your final answer within \\boxed{}.\nuser\n"


@pytest.mark.parametrize(
    ("prompts", "common"),
    [
        ([f"{SYSTEM}What is two?", f"{SYSTEM}What is one?", f"{SYSTEM}What is ten?"], SYSTEM),
        # Short beginnings help to read the rest.
        (["What is two?", "What is one?"], ""),
        (
            ["Solve this very hard problem. How?", "Solve this very hard problem. Why?"],
            "Solve this very hard problem. ",
        ),
        # One prompt differs from none.
        ([SYSTEM, SYSTEM], ""),
        ([f"{SYSTEM}one", "two"], ""),
    ],
)
def test_what_all_prompts_begin_with(tmp_path, run, prompts, common):
    rows = [
        {"prompt": prompt, "response": f"{place} \\boxed{{{place % 2}}}", "reward": float(place % 2)}
        for prompt in prompts
        for place in range(4)
    ]
    run(write_lines(tmp_path / "d.jsonl", rows), curator="denoise")
    assert read_report(tmp_path / "out").common_beginning == common


def test_a_prompt_of_nothing_else_is_shown_whole():
    assert without_beginning(SYSTEM, SYSTEM) == SYSTEM
    assert without_beginning(f"{SYSTEM}What?", SYSTEM) == "…What?"
