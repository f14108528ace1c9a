"""What an engine writes in its own way is told by one declaration."""

import pytest
from dumps import write_lines
from written import groups_of, read

from geoalign.dumps.formats import FORMATS
from geoalign.dumps.formats.format import Format
from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import read_dump
from geoalign.dumps.values import BadValueError
from geoalign.errors import InputError


def flatten(row):
    return {**row, "verdict": row["scores"]["grader"], "problem": row["task"]["name"]}


def mark(row, value):
    if value not in ("C", "I"):
        raise BadValueError("scores.grader", "C or I", repr(value))
    return float(value == "C")


NEW = Format(
    name="new",
    title="logs of a new engine",
    columns=("task.name", "turns", "scores.grader"),
    flatten=flatten,
    fields={"prompt": ("task.question",), "response": ("turns",), "reward": ("verdict",), "group": ("problem",)},
    readers={("reward", "verdict"): mark},
)
ROWS = [
    {"task": {"name": f"t{task}", "question": "1+1?"}, "turns": [{"role": "assistant", "content": f"way {number}"}],
     "scores": {"grader": "CI"[number]}}
    for task in range(2) for number in range(2)
]  # fmt: skip


@pytest.fixture(autouse=True)
def _declared(monkeypatch):
    monkeypatch.setitem(FORMATS, "new", NEW)


def test_its_rows_are_recognised_and_read(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", ROWS)
    layout, rows = read(path)
    assert str(layout) == "logs of a new engine (prompt from task.question, response from turns, " + (
        "reward from verdict, group from problem)"
    )
    assert [row.reward for row in rows] == [1, 0, 1, 0]
    assert [row.response for row in rows] == ["way 0", "way 1", "way 0", "way 1"]
    assert groups_of(read_dump(path, layout)) == [0, 0, 1, 1]


@pytest.mark.parametrize(("change", "message"), [
    ({"scores": {"grader": "?"}}, r"line 2: scores\.grader: expected C or I, got '\?'"),
    ({"scores": {}}, "line 2: expected logs of a new engine, got a field of another kind: 'grader'"),
])  # fmt: skip
def test_what_it_does_not_write_is_refused_with_the_line(tmp_path, change, message):
    path = write_lines(tmp_path / "a.jsonl", [ROWS[0], {**ROWS[1], **change}])
    layout, _ = find_layout(path)
    with pytest.raises(InputError, match=message):
        read_dump(path, layout)
