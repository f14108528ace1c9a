"""A JSON array of rows: what is wrong with it is named by row."""

import json

import pytest
from dumps import changed, plain

from geoalign.errors import ConfigError, InputError

WHOLE = json.dumps(plain())
BAD_ARRAYS = {
    "cut in half": (WHOLE[:-20], r"row 48: expected a JSON object, got JSONDecodeError: .* \(character \d,\d+ of", 47),
    "no end": (WHOLE[:-1], r"row 49: expected a comma or the end of the array before it, got the end of the file", 48),
    "no comma": (WHOLE.replace("}, {", "} {", 5).replace("} {", "}, {", 4),
                 r"row 6: expected a comma or the end of the array before it, got '\{", 5),
    "more behind": (WHOLE + "\n [1]", r"row 49: expected nothing behind the array, got '\[1\]'", 48),
    "a number": (WHOLE.replace("}, {", "}, 5, {", 1), r"row 2: expected a JSON object, got int", 48),
    "a comma at the end": (WHOLE[:-1] + ",]", r"row 49: expected a JSON object, got JSONDecodeError", 48),
    "a bad field": (json.dumps(changed(plain(), 5, reward="0.5")), r"row 6: reward: expected a number, got a text", 47),
    "too deep": (WHOLE[:-1] + ", " + "[" * 100_000, r"row 49: expected a JSON object, got RecursionError", 48),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_ARRAYS)
def test_a_bad_array_of_rows(kind, tmp_path, run):
    text, message, left = BAD_ARRAYS[kind]
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"rows.json, {message}"):
        run(path)
    summary = run(path, skip_bad=True)
    assert (summary["counts"]["rows"], summary["counts"]["skipped"]) == (left, 1)


@pytest.mark.parametrize("content", ["[]", "[ \n]", "{}", "", "[", '[{"a": 1}'])
def test_an_array_of_nothing(content, tmp_path, run):
    path = tmp_path / "rows.json"
    path.write_text(content)
    with pytest.raises((InputError, ConfigError), match=r"rows.json[:,]"):
        run(path)


def test_an_array_that_is_no_utf8(tmp_path, run):
    path = tmp_path / "rows.json"
    path.write_bytes(WHOLE.encode().replace(b"answer 3", b"answ\xff 3"))
    with pytest.raises(InputError, match=r"rows.json, row 13: expected a JSON object, got UnicodeDecodeError"):
        run(path)
