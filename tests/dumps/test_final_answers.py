"""A response's answer under its usual name is read in every format; the gold answer is not taken for it."""

import json

import pytest
from written import dump_of, rollouts, wrote

from geoalign.dumps.field_names import FINAL_ANSWERS
from geoalign.dumps.layout import find_layout
from geoalign.dumps.raw_rows import CsvCell
from geoalign.dumps.values import gold_answers

NAMES = {
    "plain": {"prompt": "prompt", "response": "response", "reward": "reward"},
    "verl": {"prompt": "input", "response": "output", "reward": "score"},
    "trinity": {"prompt": "prompt_text", "response": "response_text", "reward": "reward"},
    "slime": {"prompt": "prompt", "response": "response", "reward": "reward"},
}
MORE = {
    "plain": {},
    "verl": {"step": 1, "gts": "gold"},
    "trinity": {"eid": lambda problem, number: {"batch": 1, "task": problem, "run": number, "step": 0, "suffix": "s"}},
    "slime": {"group_index": lambda problem, _: problem, "response_length": 3, "status": "completed", "label": "gold"},
}  # fmt: skip


def rows_of(kind, **fields):
    names = NAMES[kind]
    prompted = rollouts(prompt=lambda problem, _: f"question {problem}", **{**MORE[kind], **fields})
    return [{names.get(name, name): value for name, value in row.items()} for row in prompted]


def answers(dump):
    return dump.frame["final_answer"].tolist()


@pytest.mark.parametrize("name", FINAL_ANSWERS)
@pytest.mark.parametrize("kind", ["plain", "verl", "trinity"])
def test_under_every_usual_name(tmp_path, kind, name):
    dump = dump_of(tmp_path, rows_of(kind, **{name: lambda problem, number: f"{problem}.{number}"}))
    assert dump.layout.format.name == kind
    assert dump.layout.fields["final_answer"] == name
    assert answers(dump)[:4] == ["0.0", "0.1", "0.2", "1.0"]
    assert all(gold in (None, "gold") for gold in dump.frame["answer"])


@pytest.mark.parametrize("nothing", [None, "", "  ", "[INVALID]", "None", []])
def test_an_empty_answer_is_none_and_an_empty_column_is_no_column(tmp_path, nothing):
    empty = dump_of(tmp_path, rows_of("verl", pred=nothing))
    assert "final_answer" not in empty.layout.fields
    assert set(answers(empty)) == {None}
    some = dump_of(tmp_path, rows_of("verl", pred=lambda _, number: "7" if number == 2 else nothing))
    assert answers(some)[:3] == [None, None, "7"]


def test_a_filled_column_comes_before_an_empty_one_and_verdicts_are_no_answers(tmp_path):
    dump = dump_of(tmp_path, rows_of("verl", pred=None, extracted_answer="7"))
    assert dump.layout.fields["final_answer"] == "extracted_answer"
    assert "final_answer" not in dump_of(tmp_path, rows_of("plain", pred=True)).layout.fields


def test_answers_that_come_late_in_a_file_are_read(tmp_path):
    rows = rollouts(problems=20, prompt=lambda problem, _: f"question {problem}",
                    pred=lambda problem, _: "7" if problem > 15 else None)  # fmt: skip
    assert answers(dump_of(tmp_path, rows))[-1] == "7"


def test_a_number_and_an_answer_in_a_list_of_its_own(tmp_path):
    dump = dump_of(tmp_path, rows_of("verl", pred=lambda _, number: [["42"], 42, 4.5][number]))
    assert answers(dump)[:3] == ["42", "42", "4.5"]


def test_the_gold_answer_is_not_the_responses(tmp_path):
    for kind, name in (("plain", "answer"), ("plain", "ground_truth"), ("verl", "gts")):
        dump = dump_of(tmp_path, rows_of(kind, **{name: lambda problem, _: str(problem)}))
        assert dump.layout.fields["answer"] == name
        assert set(answers(dump)) == {None}
    # Where the user says so, `answer` is the responses' and no gold answer.
    asked = dump_of(tmp_path, rows_of("plain", answer=lambda *place: f"{place}"), fields={"final_answer": "answer"})
    assert answers(asked)[:2] == ["(0, 0)", "(0, 1)"]
    assert set(asked.frame["answer"]) == {None}


def test_of_lists_of_responses_a_list_of_answers_is_theirs(tmp_path):
    rows = [{"query": f"q{p}", "responses": ["a", "b", "c"], "rewards": [1, 0, 0], "answer": "gold",
             "predictions": ["7", None, "8"]} for p in range(3)]  # fmt: skip
    dump = dump_of(tmp_path, rows)
    assert answers(dump)[:3] == ["7", None, "8"]
    assert set(dump.frame["answer"]) == {"gold"}
    # One text for all is none of them.
    dump = dump_of(tmp_path, [{**row, "predictions": "7"} for row in rows])
    assert set(answers(dump)) == {None}


def test_of_lists_of_responses_rewards_that_are_named_together_add_up(tmp_path):
    rows = [{"query": f"q{p}", "responses": ["a", "b"], "acc": [1, 0], "fmt": [0.5, 0.25]} for p in range(3)]
    dump = dump_of(tmp_path, rows, fields={"reward": "acc+fmt"})
    assert dump.frame["reward"].tolist() == [1.5, 0.25] * 3


def test_a_verdict_called_correct_answer_is_no_gold_answer(tmp_path):
    rows = rows_of("plain", correct_answer=lambda _, number: number == 0)
    assert "answer" not in find_layout(wrote(tmp_path, rows))[0].fields
    assert json.loads(json.dumps(dump_of(tmp_path, rows).layout.fields["group"])) == "prompt"


@pytest.mark.parametrize(
    ("value", "golds"),
    [
        ("a", ("a",)),
        (7, ("7",)),
        (["a"], ("a",)),
        (["a", "b", "a", ""], ("a", "b")),
        # A list of numbers is an answer itself.
        ([1, 2], ("[1, 2]",)),
        (CsvCell("['a', 'b']"), ("a", "b")),
        (CsvCell("[1, 2]"), ("[1, 2]",)),
        ('["a", "b"]', ('["a", "b"]',)),
        (None, ()),
        ([], ()),
    ],
)
def test_each_text_of_a_list_is_a_gold_answer(value, golds):
    assert gold_answers("answer", value) == golds
