import pytest

from geoalign.lab.tasks.decontaminate import (
    count_shared,
    duplicates_note,
    exact,
    find_duplicates,
    fingerprint,
    keep,
    kept_note,
    same_answer,
)


def user(text, *before):
    return (*before, {"role": "user", "content": text})


def test_a_fingerprint_is_the_first_letters_and_digits():
    assert fingerprint(user("Let  $x_1$ = 2,\nÄ²!")) == "letx12ä²"
    assert fingerprint(user("a" * 149 + "  bc")) == "a" * 149 + "b"
    assert fingerprint(user("p", {"role": "system", "content": "S"}, {"role": "assistant", "content": "r"})) == "rp"
    assert fingerprint(user("?!")) == ""


def test_exact_keys_tell_every_character_and_role_apart():
    assert exact(user("p")) == exact(user("p"))
    assert len({exact(user("p")), exact(user("p ")), exact(({"role": "assistant", "content": "p"},))}) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("2", "2", True), ("025", "25.0", True), ("1,000", "1000", True), ("1", "2", False), ("1/2", "0.5", False)],
)
def test_answers_that_plainly_agree(one, other, same):
    assert same_answer(one, other) is same


KEYS = ["a", "b", "a", "c", "b", "b", "d"]
ANSWERS = ["1", "2", "01", "3", "2", "9", "4"]


def test_duplicates_by_hand():
    found = find_duplicates(KEYS, ANSWERS)
    assert found.groups == ((0, 2), (1, 4, 5))
    # Rows 1 and 4 say 2, row 5 says 9.
    assert found.conflicting == ((1, 4, 5),)
    assert (found.later_rows, found.rows_in_conflict) == (3, 3)
    assert find_duplicates([], []).groups == ()


def test_what_is_kept_by_hand():
    found = find_duplicates(KEYS, ANSWERS)
    # Of a the first, of b none, c and d; d is evaluated.
    kept = keep(found, KEYS, {"d", "b"})
    assert kept.rows == (0, 3)
    assert (kept.conflicting, kept.repeated, kept.evaluated) == (3, 1, 1)
    assert len(kept.rows) + kept.conflicting + kept.repeated + kept.evaluated == len(KEYS)


def test_a_prompt_without_letters_overlaps_nothing():
    assert count_shared(["", "a", "b", "a"], {"", "a"}) == 2
    assert keep(find_duplicates([1, 2], ["x", "y"]), ["", "a"], {"", "a"}).rows == (0,)


def test_notes_only_where_there_is_something_to_say():
    nothing = find_duplicates([1, 2], ["x", "y"])
    assert duplicates_note("f", 2, nothing, "prompts") == []
    assert kept_note("f", 2, keep(nothing, ["a", "b"], ()), "problems") == []
    (note,) = duplicates_note("f", 7, find_duplicates(KEYS, ANSWERS), "prompts")
    assert note == (
        "f: 2 prompts stand there more than once (3 of 7 rows stand before), 1 of them with conflicting answers "
        "(3 rows)"
    )
