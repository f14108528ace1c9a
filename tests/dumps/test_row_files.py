"""Files of rows in every form: the same rows, whatever they are written as."""

import csv
import gzip
import io
import json

import pandas
import pyarrow as pa
import pytest

from geoalign.dumps import json_rows, raw_rows
from geoalign.dumps.labels import read_labelled_rollouts
from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import read_dump
from geoalign.dumps.row_files import file_rows
from geoalign.errors import InputError
from geoalign.lab.data.sources import rows_of

ROWS = [
    {"prompt": f"Sum, of {group}?\n\"now\"", "response": f"way {number};é", "reward": number / 2, "answer": "007",
     "truncated": number == 1}
    for group in range(3) for number in range(3)
]  # fmt: skip


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(**options):
    return pandas.DataFrame(ROWS).to_csv(index=False, **options)


FORMS = {
    "array.json": json.dumps(ROWS),
    "array over lines.json": json.dumps(ROWS, indent=2),
    "array.jsonl": json.dumps(ROWS),
    "array.json.gz": json.dumps(ROWS),
    "byte order mark.json": "\ufeff" + json.dumps(ROWS),
    "inside data.json": json.dumps({"version": 1, "data": ROWS}),
    "inside rows.json": json.dumps({"rows": ROWS}, indent=1),
    "split.json": pandas.DataFrame(ROWS).to_json(orient="split"),
    "lines.json": lines(ROWS),
    "lines.ndjson": lines(ROWS),
    "lines.jsonl.gz": lines(ROWS),
    "windows.jsonl": "\ufeff" + lines(ROWS).replace("\n", "\r\n\r\n"),
    "joined.jsonl": "\ufeff" + lines(ROWS[:4]) + "\ufeff" + lines(ROWS[4:]),
    "commas.csv": table(),
    "semicolons.csv": "\ufeff" + table(sep=";"),
    "windows.csv": table(lineterminator="\r\n"),
    "tabs.tsv": table(sep="\t"),
    "packed.csv.gz": table(),
    "old Mac.jsonl": lines(ROWS).replace("\n", "\r"),
    "old Mac.csv": table(lineterminator="\r"),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_same_rows_in_every_form(tmp_path, name):
    data = FORMS[name].encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    frame = read_dump(path, find_layout(path)[0]).frame
    for column in ("prompt", "response", "reward", "answer", "truncated"):
        assert frame[column].tolist() == [row[column] for row in ROWS], column
    assert frame["group"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert frame["line"].is_unique
    # Problems and dialogues come through the same reader.
    assert [row["answer"] for _, row in rows_of(path)] == ["007"] * 9


@pytest.mark.parametrize("name", ["lines.jsonl", "array.json", "commas.csv"])
def test_a_packed_file_whose_name_does_not_say_so(tmp_path, name):
    data = {**FORMS, "lines.jsonl": lines(ROWS)}[name].encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data))
    assert [row["answer"] for _, row in rows_of(path)] == ["007"] * 9


@pytest.mark.parametrize("written", [json.dumps, str], ids=["JSON", "Python"])
def test_a_conversation_in_a_cell(tmp_path, written):
    said = [{"role": "user", "content": 'It\'s "1+1"?'}]
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["prompt", "completion", "reward", "step"])
    writer.writerows(
        [[written(said), "[{'no': 'conversation'}]", reward, 3] for reward in ("1", "0", "", "nan", "True")]
    )
    path = tmp_path / "a.csv"
    path.write_text(file.getvalue())
    layout, step = find_layout(path)
    frame = read_dump(path, layout).frame
    assert (step, frame["messages"][0]) == (3, tuple(said))
    assert set(frame["response"]) == {"[{'no': 'conversation'}]"}
    assert frame["reward"].fillna(-1).tolist() == [1, 0, -1, -1, 1]


def test_a_cell_that_is_no_number_is_shown(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("prompt,response,reward\na,b,1\na,c,0;5\n")
    with pytest.raises(InputError, match=r"a\.csv, line 3: reward: expected a number, got '0;5'"):
        read_dump(path, find_layout(path)[0])


@pytest.mark.parametrize(("name", "content", "place", "reason"), [
    ("cut.json", json.dumps(ROWS)[:-20], "row 9", "expected an array of JSON, got JSONDecodeError"),
    ("cut.jsonl", lines(ROWS)[:-20], "line 9", "the file ends inside this line: is it still being written?"),
    ("comma.json", "[{}, {} {}]", "row 3", "'{' behind an entry, instead of a comma (line 1)"),
    ("behind.json", "[{},\n{}]\n{}", "row 3", "'{}' behind its end"),
    ("quote.csv", 'a,b\n1,"2\n3,4\n', "line 2", "expected CSV in UTF-8, got unexpected end of data"),
    ("short.csv", "a,b\n1,2\n3\n", "line 3", "expected 2 cells as in the first line, got 1"),
    ("several.jsonl", '{"a": 1}\n{"a": 1} {"a": 2}\n', "line 2", "several on one line, the second from column 10 on"),
    ("one line.jsonl", '{"a": 1}{"a": 2}', "line 1", "several on one line, the second from column 9 on: write"),
    ("commas.jsonl", '{"a": 1},\n{"a": 2},\n', "line 1", "one with a comma behind it: leave the commas out"),
    ("over lines.jsonl", '{\n"a": 1\n}\n{\n"a": 2\n}\n', "line 1", "does not end in this line: write each rollout"),
    ("latin.jsonl", '{"a": "é"}\n', "line 1", "a JSON object, got text that is not UTF-8 (byte 0xe9): convert"),
    ("latin.json", '[{"a": 1}, {"a": "é"}]', "row 1", "an array of JSON, got text that is not UTF-8 (byte 0xe9)"),
    ("latin.csv", "a,b\n1,é\n", "line 2", "CSV in UTF-8, got text that is not UTF-8 (byte 0xe9): convert"),
    ("parquet.jsonl", "PAR1\x15\x04\n", "line 1", "got a parquet file: give it a name that ends in .parquet"),
    ("twice.csv", "a,a\n1,2\n", "line 1", "two or more of a"),
])  # fmt: skip
def test_broken_files_say_where(tmp_path, name, content, place, reason):
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InputError) as error:
        list(rows_of(path))
    assert f"{name}, {place}: " in str(error.value)
    assert reason in str(error.value)


def test_rows_before_a_break_are_read_and_a_bad_entry_alone_is_left_out(tmp_path):
    path = tmp_path / "a.json"
    whole = json.dumps([*ROWS[:4], 5, *ROWS[4:]])
    path.write_text(whole[:-30])
    dump = read_dump(path, find_layout(path)[0], skip_bad=True)
    assert len(dump.frame) == 8
    assert [row.line for row in dump.skipped] == [5, 10]


def test_an_array_is_read_piece_by_piece_and_no_entry_may_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_rows, "MEGABYTE", 7)
    monkeypatch.setattr(raw_rows, "LONGEST_ROW", 200)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ROWS, indent=1, ensure_ascii=False))
    assert [row.value for row in file_rows(path)] == ROWS
    path.write_text(json.dumps([ROWS[0], {"response": "x" * 300}]))
    [_, long] = file_rows(path)
    assert "an entry of more than" in long.problem


def test_labelled_rollouts_as_csv(tmp_path):
    path = tmp_path / "labelled.csv"
    path.write_text(table())
    assert list(read_labelled_rollouts(path).rewards) == [row["reward"] for row in ROWS]


def test_lines_packed_by_zstd_in_any_number_of_frames(tmp_path):
    def frame(rows):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        return pa.compress(text.encode(), codec="zstd", asbytes=True)

    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(frame(ROWS[:4]) + frame(ROWS[4:]))
    assert [raw.value for raw in file_rows(path)] == ROWS
    path.write_bytes(path.read_bytes()[:-3])
    *_, last = file_rows(path)
    assert (last.value, last.rest_lost) == (None, True)


def test_an_object_that_is_too_large_to_be_parsed_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(json_rows, "LARGEST_OBJECT", 100)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"samples": ROWS}, indent=2))
    (row,) = file_rows(path)
    assert row.problem.startswith("expected one row a line, got one object of more than 0 MB")
