import gzip

import pytest

from geoalign.errors import ConfigError, InputError
from geoalign.lab.tasks.rows import field_of, read_rows


def test_numbers_stay_the_text_in_the_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"answer": 9007199254740993}\n\n{"answer": 27.0}\n{"answer": ' + "9" * 5000 + "}\n", encoding="utf-8"
    )
    assert list(read_rows(path)) == [
        ("line 1", {"answer": "9007199254740993"}),
        ("line 3", {"answer": "27.0"}),
        ("line 4", {"answer": "9" * 5000}),
    ]


def test_gzip_is_read_as_the_plain_file(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write('{"question": "é"}\n')
    assert list(read_rows(path)) == [("line 1", {"question": "é"})]


def test_parquet_rows_are_counted_over_batches(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"n": list(range(2500))}), tmp_path / "a.parquet")
    rows = list(read_rows(tmp_path / "a.parquet"))
    assert rows[0] == ("row 1", {"n": 0})
    assert rows[-1] == ("row 2500", {"n": 2499})


def test_a_json_file_is_one_array(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"answer": 9007199254740993},\n {"answer": ["1", 27.0]}]', encoding="utf-8")
    assert list(read_rows(path)) == [("row 1", {"answer": "9007199254740993"}), ("row 2", {"answer": ["1", "27.0"]})]


CUT = gzip.compress(b'{"a": 1}\n' * 1000)[:-20]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.json", b'{"a": 1}', "row 1: expected an array of JSON, got dict"),
        ("bad.json", b'[{"a": 1}, 2]', "row 2: expected a JSON object, got str"),
        ("bad.json", b'[{"a": 1}', "row 1: expected an array of JSON, got JSONDecodeError"),
        ("bad.json", b"[" * 200_000, "row 1: expected an array of JSON, got values nested too deeply"),
        ("bad.jsonl", b'{"a": 1}\n{"a": \n', "line 2: expected a JSON object"),
        ("bad.jsonl", b"[1, 2]\n", "line 1: .* got list"),
        ("bad.jsonl", b'{"a": {"c": 1, "c": 1}}\n', "line 1: .* the key 'c' twice in one object"),
        ("bad.jsonl", b'{"a": 1}\n\xff\xfe\n', "line 2: expected a JSON object, got 'utf-8' codec"),
        ("bad.jsonl", b"x" * (2**24 + 1), "line 1: expected lines of JSON, got a line of more than 16 MB"),
        ("bad.jsonl.gz", CUT, r"line \d+: expected lines of JSON"),
        ("bad.jsonl.gz", b"not gzip", "line 1: expected lines of JSON"),
        ("bad.parquet", b"PAR1 no", "row 1: expected a parquet file"),
    ],
)
def test_bad_content_is_an_error_with_its_place(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}, {message}"):
        list(read_rows(tmp_path / name))


def test_a_damaged_name_of_a_parquet_column_is_an_error(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"prompt": ["p"]}), tmp_path / "whole.parquet", store_schema=False)
    # 0x84 begins no character of UTF-8.
    (tmp_path / "bad.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes().replace(b"prompt", b"p\x84ompt"))
    with pytest.raises(InputError, match=r"bad\.parquet, row 1: expected a parquet file, got UnicodeDecodeError"):
        list(read_rows(tmp_path / "bad.parquet"))


def test_a_file_that_is_not_there_or_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected a file, got none"):
        read_rows(tmp_path / "none.jsonl")
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(ConfigError, match=r"ends in \.jsonl, \.jsonl\.gz, \.json or \.parquet"):
        read_rows(tmp_path / "a.csv")


def test_dotted_names_go_into_objects_and_lists():
    row = {"reward_model": {"ground_truth": "34"}, "prompt": [{"content": "why"}], "a.b": "itself", "a": {"b": "inner"}}
    assert field_of(row, "reward_model.ground_truth") == "34"
    assert field_of(row, "prompt.0.content") == "why"
    assert field_of(row, "a.b") == "itself"
    for absent in ("prompt.1.content", "prompt.x", "reward_model.ground_truth.0", "nothing", "prompt.-1"):
        assert field_of(row, absent) is None
