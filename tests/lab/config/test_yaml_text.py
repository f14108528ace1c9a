"""What a YAML node means, the place of every key, and the limits of what is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from geoalign.errors import ConfigError
from geoalign.settings.yaml_text import DEEPEST, MOST_BYTES, MOST_VALUES, dump_yaml, parse_yaml, read_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("# nothing", None),
        ("3", 3),
        ("a: [1, 2.5, x, null, yes]", {"a": [1, 2.5, "x", None, True]}),
        ("a: 1e-3", {"a": 0.001}),
        ("a: 2024-05-01", {"a": "2024-05-01"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        # What stands in the mapping itself wins, then the earlier of those that `<<` names.
        ("a: {<<: [{b: 1, c: 1}, {b: 2, d: 2}], c: 3}", {"a": {"b": 1, "d": 2, "c": 3}}),
    ],
)
def test_values(text: str, expected: Any) -> None:
    assert parse_yaml(text, "x.yaml")[0] == expected


def test_an_alias_is_a_copy() -> None:
    data, _ = parse_yaml("a: &x [1]\nb: *x", "x.yaml")
    data["a"].append(2)
    assert data["b"] == [1]


def test_the_place_of_every_key() -> None:
    _, places = parse_yaml("a:\n  b: 1\nc:\n  - d: 2\n  - 3\n", "x.yaml")
    lines = {"a": 1, "a.b": 2, "c": 3, "c.0": 4, "c.0.d": 4, "c.1": 5}
    assert places == {key: f"x.yaml, line {line}" for key, line in lines.items()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b:\n  a: 010", r"x\.yaml, line 2: b\.a: expected a decimal number of at most 64 bits .*, got '010'$"),
        ("a: 1e999", r"line 1: a: expected a finite decimal number .*, got '1e999'$"),
        ("a:\n- b: 1\n  b: 2", r"line 3: a\.0\.b: expected once, got a second time \(first: x\.yaml, line 2\)$"),
        ("a: !!binary eA==", r"line 1: a: expected YAML without such tags, got '!!binary'$"),
        ("a: &x [*x]", r"line 1: a\.0: expected no alias inside what it names$"),
        ("a: {1: 2}", r"line 1: a: expected keys that are texts .*, got '1'$"),
        ("a: " + "[" * (DEEPEST + 1), rf"line 1: expected at most {DEEPEST} levels of nesting$"),
        ("a: [" + "1," * MOST_VALUES + "]", rf"line 1: a\.\d+: expected at most {MOST_VALUES:,} values"),
        ("a: &x [" + "1," * 1000 + "]\nb: [" + "*x," * 30 + "]", r"b\.\d+\.\d+: expected at most .* values"),
        ("k" * 201 + ": 1", r"line 1: .*expected"),
    ],
)  # fmt: skip
def test_refusals_name_line_and_key(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_yaml(text, "x.yaml")


@pytest.mark.parametrize("text", ["1e-3", "010", "1:30", "2024-05-01", "no", "null", "", "0x1", "<<", "a: b", "\t"])
def test_a_text_is_written_so_that_it_is_read_as_the_same_text(text: str) -> None:
    assert parse_yaml(dump_yaml({text: [text]}), "x.yaml")[0] == {text: [text]}


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * MOST_BYTES)
    assert len(read_text(path)) == MOST_BYTES
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(ConfigError, match=rf"x\.yaml: expected settings of at most {MOST_BYTES:,} bytes"):
        read_text(path)
    path.write_bytes(b"a: 1\nb: \xff")
    with pytest.raises(ConfigError, match=r"x\.yaml, line 2: .*UTF-8, got the byte 0xff"):
        read_text(path)
