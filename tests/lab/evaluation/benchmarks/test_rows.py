import json
import math
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from geoalign.errors import RunFolderError
from geoalign.lab.store.columns import whole_text
from geoalign.lab.store.evaluation import Part, Row, messages_json, read_part, write_part

HOSTILE = ["a\x00b", "\u202e\u2028</script>", "💥" * 50, "\\boxed{" * 40, "", "\ufeff\r\n", "'\";--"]
ROW = Row("m", "aime24", "7", 0, '[{"role": "user", "content": "?"}]', "text", "1", 1.0, True, 5, 3, False)


def _rows() -> tuple[Row, ...]:
    return tuple(replace(ROW, sample=number, response=text) for number, text in enumerate(HOSTILE))


def _places(rows: tuple[Row, ...]) -> list[tuple[str, str, str, int]]:
    return [(row.model, row.set, row.id, row.sample) for row in rows]


def test_a_part_comes_back_as_it_was(tmp_path: Path) -> None:
    part = Part(_rows(), {"no_answer": 3, "timeouts": 1})
    path = tmp_path / "a=b" / "part-00000.parquet"
    write_part(path, part)
    assert read_part(path, _places(part.rows)) == part
    assert [item.name for item in path.parent.iterdir()] == [path.name]
    assert pq.read_schema(path).names[:4] == ["model", "set", "id", "sample"]


def test_rewards_may_be_absent_or_not_a_number(tmp_path: Path) -> None:
    rows = (replace(ROW, reward=None, correct=None), replace(ROW, sample=1, reward=math.nan, correct=None))
    write_part(tmp_path / "p.parquet", Part(rows, {}))
    one, two = read_part(tmp_path / "p.parquet", _places(rows)).rows
    assert one == rows[0]
    assert two.reward is not None
    assert math.isnan(two.reward)


def test_halves_of_surrogate_pairs_become_the_sign_for_what_cannot_be_read() -> None:
    assert whole_text("a\ud800b\udfff💥") == "a\ufffdb\ufffd💥"
    assert whole_text("plain") == "plain"
    text = messages_json([{"role": "user", "content": "\ud800💥"}])
    assert text.isascii()
    assert json.loads(text) == [{"role": "user", "content": "\ud800💥"}]


def test_a_part_with_other_rows_is_refused(tmp_path: Path) -> None:
    write_part(tmp_path / "p.parquet", Part(_rows(), {}))
    with pytest.raises(RunFolderError, match="expected 0 rows of this evaluation, got 7 others"):
        read_part(tmp_path / "p.parquet", [])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"{}"])
def test_a_file_that_is_no_part_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.parquet").write_bytes(content)
    with pytest.raises(RunFolderError, match=r"p\.parquet: expected rows of an evaluation"):
        read_part(tmp_path / "p.parquet", [])


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    pq.write_table(pa.table({"x": [1]}), tmp_path / "p.parquet")
    with pytest.raises(RunFolderError, match="expected rows of an evaluation"):
        read_part(tmp_path / "p.parquet", [])
