from pathlib import Path
from typing import Any

import pytest

from geoalign.errors import ConfigError
from geoalign.settings.yaml_text import MOST_BYTES, dump_yaml, parse_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# nothing", None),
        ("a: [1, 2.5, x, null, true, ~]", {"a": [1, 2.5, "x", None, True, None]}),
        # As in YAML 1.2: numbers with an exponent, no octal 010, no booleans but true and false, dates are texts.
        ("a: [1e-3, 2E5, 010, 0x10, yes, off, 1:30, 2024-05-01, 1e-3x]",
         {"a": [0.001, 2e5, 10, 16, "yes", "off", "1:30", "2024-05-01", "1e-3x"]}),
        ("\ufeffa: !!str 3\r\nb: ünïcode 模型\n", {"a": "3", "b": "ünïcode 模型"}),
    ],
)  # fmt: skip
def test_values(text: str, expected: Any) -> None:
    assert parse_yaml(text, "x.yaml")[0] == expected


def test_the_place_of_every_key() -> None:
    _, places = parse_yaml("a:\n  b: 1\nc:\n  - d: 2\n  - 3\n", "x.yaml")
    lines = {"a": 1, "a.b": 2, "c": 3, "c.0": 4, "c.0.d": 4, "c.1": 5}
    assert places == {key: f"x.yaml, line {line}" for key, line in lines.items()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n- b: 1\n  b: 2", r"line 3: a\.0\.b: expected once, got a second time \(first: x\.yaml, line 2\)$"),
        ("a: &x [1]\nb: *x", r"line 2: b: expected no alias"),
        ("a: &x [*x]", r"line 1: a\.0: expected no alias"),
        ("a: !!binary eA==", r"line 1: a: expected YAML without tags, got '.*binary'$"),
        ("a: !!python/object/apply:os.system ['true']", r"line 1: a: expected YAML without tags"),
        ("a: 1\nb: !!int x", r"line 2: b: expected a value, got 'x'$"),
        ("a: " + "9" * 5001, r"line 1: a: expected a value, got '9+\.\.\. "),
        ("a: {1: 2}", r"line 1: a: expected keys that are texts"),
        ("a: [1\n", r"x\.yaml, line 2: expected YAML, got "),
        ("a: 1\n---\nb: 2", r"x\.yaml, line 2: expected YAML, got "),
        ("a: \x00", r"x\.yaml: expected YAML, got .*#x0000"),
        ("a: " + "[" * 1_000, r"x\.yaml: expected YAML, got .*recursion"),
    ],
)
def test_refusals_name_line_and_key(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_yaml(text, "x.yaml")


@pytest.mark.parametrize(
    "text", ["1e-3", "010", "no", "null", "~", "", "0x1", "<<", "a: b", "\t", "two\nlines", "- a", "\x1b", "é 🙂"]
)
def test_a_text_is_written_so_that_it_is_read_as_the_same_text(text: str) -> None:
    data = {text: [text], "shared": text}
    assert parse_yaml(dump_yaml(data), "x.yaml")[0] == data


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * MOST_BYTES)
    assert read_yaml(path) == ({}, {})
    for content, message in (
        (b"#" * (MOST_BYTES + 1), rf"x\.yaml: expected settings of at most {MOST_BYTES:,} bytes"),
        (b"a: 1\nb: \xff", r"x\.yaml: expected a readable YAML file in UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=message):
            read_yaml(path)
    for other in (tmp_path, tmp_path / "nowhere", Path("a\0b")):
        with pytest.raises(ConfigError, match="expected a readable YAML file"):
            read_yaml(other)
