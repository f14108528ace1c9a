"""Columns that a file may have: what they say in other words is read, and what they do not say names both ways out."""

import pandas
import pytest
from dumps import plain, write_lines

from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import read_dump
from geoalign.errors import InputError

ROWS = len(plain())


def with_column(tmp_path, name, value_of_row):
    rows = [{**row, name: value_of_row(place)} for place, row in enumerate(plain())]
    return write_lines(tmp_path / "dump.jsonl", rows)


def read(path, **fields):
    return read_dump(path, find_layout(path, fields=fields)[0]).frame


@pytest.mark.parametrize(("role", "written", "said"), [
    ("tokens", [5, 6, 7], 3),
    ("tokens", ["an", "swer"], 2),
    ("tokens", [], 0),
    ("tokens", "12", 12),
    ("truncated", "no", False),
    ("truncated", "Yes", True),
    ("truncated", "false", False),
    ("truncated", "", None),
    ("correct", "yes", True),
    ("correct", "0", False),
    ("true_reward", "0.5", 0.5),
    ("true_reward", True, 1.0),
])  # fmt: skip
def test_what_a_value_says_in_other_words_is_read(tmp_path, role, written, said):
    assert read(with_column(tmp_path, role, lambda place: written))[role].tolist() == [said] * ROWS


def test_a_further_verdict_may_be_a_word(tmp_path):
    path = with_column(tmp_path, "judge", lambda place: "yes" if place else "no")
    frame = read(path, **{"verdict.judge": "judge"})
    assert frame["verdict.judge"].tolist() == [0.0] + [1.0] * (ROWS - 1)


def test_a_list_of_tokens_in_a_cell_of_csv_is_their_number(tmp_path):
    path = tmp_path / "dump.csv"
    pandas.DataFrame(plain()).drop(columns="extra").assign(tokens="[5, 6, 7]").to_csv(path, index=False)
    assert read(path)["tokens"].tolist() == [3] * ROWS


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_step_that_is_nothing_in_all_rows_is_no_step(tmp_path, nothing):
    path = with_column(tmp_path, "step", lambda place: nothing)
    assert find_layout(path)[1] is None
    assert set(read(path)["step"]) == {1}


@pytest.mark.parametrize(("role", "value_of_row", "message"), [
    ("tokens", lambda place: "many", r"line 1: tokens: expected a number of tokens, or a list of them, got 'many'"),
    ("truncated", lambda place: "length", r"line 1: truncated: expected true or false, got 'length'"),
    ("true_reward", lambda place: "good", r"line 1: true_reward: expected a number, got 'good'"),
    ("correct", lambda place: 1 if place < 21 else "so", r"line 22: correct: expected true or false, got 'so'"),
    ("step", lambda place: [1], r"line 1: step: expected a whole number of 64 bits, got a list of numbers"),
    ("step", lambda place: 3 if place else None, r"line 1: step: expected the step of the rollout, got none"),
    ("step", lambda place: 3 if place > 20 else None, r"line 22: step: expected no step, as in the rows before, got 3"),
    ("id", lambda place: place or None, r"line 1: id: expected the id of the rollout, got null"),
    ("group", lambda place: place // 4 or None, r"line 1: group: expected the group of the rollout, got null"),
])  # fmt: skip
def test_what_says_nothing_is_one_error_whose_ways_out_work(tmp_path, role, value_of_row, message):
    path = with_column(tmp_path, role, value_of_row)
    with pytest.raises(InputError, match=message) as error:
        read(path)
    assert "--skip-bad" in str(error.value)
    assert f"--field {role}=" in str(error.value)
    assert len(read(path, **{role: ""})) == ROWS


def test_where_all_rows_would_be_skipped_the_other_way_out_is_named(tmp_path):
    path = with_column(tmp_path, "tokens", lambda place: "many")
    with pytest.raises(InputError, match=r"none of its .* rows can be read; .*; do without the column .* tokens=$"):
        read_dump(path, find_layout(path)[0], skip_bad=True)


def test_a_field_that_the_rollout_needs_is_not_left_out(tmp_path):
    path = with_column(tmp_path, "reward", lambda place: "good")
    with pytest.raises(InputError, match=r"--skip-bad$"):
        read(path)


@pytest.mark.parametrize("kind", ["answer", "pred"])
def test_an_answer_that_is_no_text_is_an_error_of_its_row(tmp_path, kind):
    path = tmp_path / "dump.parquet"
    pandas.DataFrame(plain()).drop(columns="extra").assign(**{kind: b"2"}).to_parquet(path)
    with pytest.raises(InputError, match=rf"row 1: {kind}: expected a text or a number, got bytes; .*answer="):
        read(path)
