"""Reading a growing file: every line once, whole, whatever the writer does."""

import pytest

from geoalign.lab.store.tail import GrowingLines


def append(path, content):
    with path.open("ab") as file:
        file.write(content)


def test_each_line_comes_once_and_only_when_it_is_whole(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = GrowingLines(path)
    assert lines.read() == []  # no file yet
    append(path, b'{"step": 1}\n{"st')
    assert lines.read() == [{"step": 1}]
    append(path, b'ep": 2')
    assert lines.read() == []
    append(path, b'}\n{"step": 3}\n')
    assert lines.read() == [{"step": 2}, {"step": 3}]
    assert lines.read() == []
    assert not lines.restarted
    assert lines.unreadable == 0


@pytest.mark.parametrize("cut", range(1, 24))
def test_cut_anywhere_even_in_a_character(tmp_path, cut):
    path = tmp_path / "lines.jsonl"
    lines, whole = GrowingLines(path), '{"a": "é\u2028"}\n{"b": 2}\n'.encode()
    append(path, whole[:cut])
    found = lines.read()
    append(path, whole[cut:])
    assert found + lines.read() == [{"a": "é\u2028"}, {"b": 2}]
    assert lines.unreadable == 0


def test_only_what_is_new_is_read(tmp_path, monkeypatch):
    path = tmp_path / "lines.jsonl"
    lines = GrowingLines(path)
    append(path, b'{"step": 1}\n' * 1000)
    assert len(lines.read()) == 1000
    parsed = []
    monkeypatch.setattr("geoalign.lab.store.tail.parsed_line", lambda line: parsed.append(line))
    append(path, b'{"step": 2}\n')
    lines.read()
    assert parsed == [b'{"step": 2}']


@pytest.mark.parametrize(
    "bad",
    [b"{broken", b"[1, 2]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"\x00\x1b[2J"],
)
def test_a_bad_line_is_counted_and_left_out(tmp_path, bad):
    path = tmp_path / "lines.jsonl"
    lines = GrowingLines(path)
    append(path, b'{"step": 1}\n' + bad + b'\n\n{"step": 2}\n')
    assert lines.read() == [{"step": 1}, {"step": 2}]
    assert lines.unreadable == 1


def test_a_line_without_end_is_not_kept_in_memory(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = GrowingLines(path)
    append(path, b"x" * (3 << 20))
    assert lines.read() == []
    append(path, b"y" * (2 << 20))
    assert lines.read() == []
    assert len(lines._rest) <= 1 << 20
    append(path, b'z\n{"step": 1}\n')
    assert lines.read() == [{"step": 1}]
    assert lines.unreadable == 1


def test_a_file_that_was_cut_back_or_replaced_is_read_anew(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = GrowingLines(path)
    append(path, b'{"step": 1}\n{"step": 2}\n')
    lines.read()
    path.write_bytes(b'{"step": 1}\n')
    assert lines.read() == [{"step": 1}]
    assert lines.restarted
    lines.restarted = False
    # As a resumed run writes it: under a temporary name, then renamed; longer than what was read.
    beside = tmp_path / "lines.jsonl.tmp"
    beside.write_bytes(b'{"step": 0}\n{"step": 5}\n{"step": 6}\n')
    beside.replace(path)
    assert lines.read() == [{"step": 0}, {"step": 5}, {"step": 6}]
    assert lines.restarted


def test_a_file_that_was_replaced_by_one_that_goes_on_from_it(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = GrowingLines(path)
    append(path, b'{"step": 1}\nbad\n{"st')
    lines.read()
    beside = tmp_path / "lines.jsonl.tmp"
    beside.write_bytes(b'{"step": 1}\nbad\n{"step": 2}\n{"step": 3}\n')
    beside.replace(path)
    assert lines.read() == [{"step": 2}, {"step": 3}]
    assert not lines.restarted
    assert lines.unreadable == 1
    append(path, b'{"step": 4}\n')
    assert lines.read() == [{"step": 4}]
    # The same length, but not the same lines.
    beside.write_bytes(path.read_bytes().replace(b"4", b"5"))
    beside.replace(path)
    assert lines.read() == [{"step": 1}, {"step": 2}, {"step": 3}, {"step": 5}]
    assert lines.restarted


def test_a_file_that_vanishes(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = GrowingLines(path)
    append(path, b'{"step": 1}\n')
    lines.read()
    path.unlink()
    assert lines.read() == []
    assert lines.restarted
