from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.errors import RunFolderError
from geoalign.lab.store.judging import AnswerCache


def filled(path: Path) -> bytes:
    with AnswerCache(path) as cache:
        for key, answer in (("k1", "one"), ("k2", "tw\n\u2028o"), ("k1", "three\ud800")):
            cache.add(key, answer)
    return path.read_bytes()


def test_answers_come_back_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "cache.jsonl"
    whole = filled(path)
    assert whole.count(b"\n") == 3
    with AnswerCache(path) as cache:
        assert cache.answers("k1") == ("one", "three\ud800")
        assert cache.answers("k2") == ("tw\n\u2028o",)
        assert cache.answers("k3") == ()
        cache.add("k3", "four")
        assert cache.answers("k3") == ("four",)
    assert path.read_bytes().startswith(whole)


def test_a_kill_after_any_byte_loses_at_most_the_last_answer(tmp_path: Path) -> None:
    path = tmp_path / "cache.jsonl"
    whole = filled(path)
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        with AnswerCache(path) as cache:
            kept = [cache.answers("k1"), cache.answers("k2")]
            cache.add("k9", "new")
        lines = whole[:length].count(b"\n")
        assert sum(map(len, kept)) == lines
        with AnswerCache(path) as cache:
            assert [cache.answers("k1"), cache.answers("k2")] == kept
            assert cache.answers("k9") == ("new",)


def test_a_broken_whole_line_is_an_error_and_nothing_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "cache.jsonl"
    for line in (b"{", b"[]", b'{"key": "k"}', b'{"key": "k", "answer": 1}', b"\xff", b"\0\0"):
        content = filled(path) + line + b'\n{"key": "k", "answer": "x"}\n{"cut'
        path.write_bytes(content)
        with pytest.raises(RunFolderError, match=r"cache\.jsonl, line 4: expected an object of key and answer"):
            AnswerCache(path)
        assert path.read_bytes() == content
        path.unlink()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="expected a file to keep answers in"):
        AnswerCache(tmp_path / "none" / "cache.jsonl")


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    filled(tmp_path / "cache.jsonl")
    assert (tmp_path / "cache.jsonl").stat().st_mode & 0o077 == 0


def test_any_answer_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "cache.jsonl"

    @given(st.text(st.characters(codec=None)))
    def check(answer: str) -> None:
        path.unlink(missing_ok=True)
        with AnswerCache(path) as cache:
            cache.add("k", answer)
        with AnswerCache(path) as cache:
            assert cache.answers("k") == (answer,)

    check()
