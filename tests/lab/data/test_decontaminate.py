import pytest

from geoalign.lab.data.decontaminate import (
    decontaminate,
    exact_key,
    overlap_notes,
    prompt_fingerprint,
    prompt_fingerprints,
)
from geoalign.lab.data.task import Problem


def user(text, *before):
    return (*before, {"role": "user", "content": text})


def test_what_makes_two_prompts_alike():
    # A fingerprint is the first letters and digits.
    assert prompt_fingerprint(user("Let  $x_1$ = 2,\nÄ²!")) == "letx12ä²"
    assert prompt_fingerprint(user("a" * 149 + "  bc")) == "a" * 149 + "b"
    assert (
        prompt_fingerprint(user("p", {"role": "system", "content": "S"}, {"role": "assistant", "content": "r"})) == "rp"
    )
    # Without a letter a prompt overlaps nothing.
    assert prompt_fingerprints([user("?!"), user("a?")]) == {"a"}
    # Exact keys tell every character and role apart.
    different = [user("p"), user("p "), ({"role": "assistant", "content": "p"},)]
    assert len({exact_key(prompt) for prompt in different}) == 3


# Of seven rows the prompt and the answer.
KEYS = ["a", "b", "a", "c", "b", "b", "d"]
ANSWERS = ["1", "2", "1", "3", "2", "9", "4"]


@pytest.mark.parametrize(
    ("mode", "rows", "note"),
    [
        ("off", [0, 1, 2, 3, 4, 5, 6], None),
        # Rows 2 of a and 4, 5 of b stand before; of b rows 1 and 4 say 2, row 5 says 9.
        (
            "report",
            [0, 1, 2, 3, 4, 5, 6],
            "f: 2 prompts stand there more than once (3 of 7 rows stand before), 1 of them with conflicting answers "
            "(3 rows)",
        ),
        # Of a the first is left, of b none, c and d; d is evaluated.
        (
            "drop",
            [0, 3],
            "f: 5 of 7 rows dropped: 1 stand before, 3 conflict with another, 1 stand in an evaluation set; 2 left",
        ),
    ],
)
def test_duplicates_by_hand(mode, rows, note):
    prompts = [user(key) for key in KEYS]
    evaluated = [Problem("1", user("D!"), "4"), Problem("2", user("b"), "")]
    assert decontaminate(mode, "f", KEYS, ANSWERS, prompts, evaluated) == (rows, [note] if note else [])
    # Nothing to say of rows that are all different.
    found = decontaminate(mode, "f", [1, 2], ["", ""], prompts[:2], evaluated[:1])
    assert found == ([0, 1], [])


def test_an_evaluation_set_that_overlaps_is_named():
    problems = [Problem(text, user(text), "") for text in ("a", "A!", "b", "?")]
    assert overlap_notes({"one": problems, "two": problems[2:]}, {"a"}) == [
        "evaluation set one: 2 of 4 begin like a training prompt"
    ]
