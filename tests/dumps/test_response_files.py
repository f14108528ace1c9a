import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geoalign.dumps.response_files import SavedResponse, read_responses, write_responses
from geoalign.errors import ConfigError, InputError

GOOD = {
    "set": "helpful", "id": "7", "sample": 0, "prompt": [{"role": "user", "content": "Hello"}], "response": "Hi",
    "truncated": False,
}  # fmt: skip

texts = st.text(st.characters(codec=None))  # lone surrogates and control characters too
names = st.text(st.characters(codec="utf-8"))
messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "user", "assistant", "tool"]),
    texts,
)
rows = st.builds(
    SavedResponse,
    set=names,
    id=names,
    sample=st.integers(0, 2**40),
    prompt=st.lists(messages, min_size=1, max_size=3).map(tuple),
    response=texts,
    truncated=st.booleans(),
)


def written(path, *lines):
    path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))
    return path


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_what_is_written_is_read_back(name, tmp_path_factory):
    path = tmp_path_factory.mktemp("responses") / name

    @settings(max_examples=10)
    @given(st.lists(rows, min_size=1, max_size=3, unique_by=lambda row: row.key))
    def check(given_rows):
        write_responses(path, given_rows)
        assert list(read_responses(path).values()) == given_rows

    check()


def test_further_keys_are_passed_over_and_a_second_response_under_one_key_is_refused(tmp_path):
    further_key = json.dumps({**GOOD, "reward": 0.5})
    other_sample = json.dumps({**GOOD, "sample": 1})
    path = written(tmp_path / "r.jsonl", "", further_key, "", other_sample)
    assert list(read_responses(path)) == [("helpful", "7", 0), ("helpful", "7", 1)]
    written(path, json.dumps(GOOD), json.dumps({**GOOD, "response": "other"}))
    with pytest.raises(InputError, match=r"r\.jsonl, line 2: a second response for \('helpful', '7', 0\)"):
        read_responses(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": 7}, "id: Input should be a valid string, got 7"),
        ({"id": "a\ud800"}, "id: Value error, 'utf-8' codec can't encode"),
        ({"sample": -1}, "sample: Input should be greater than or equal to 0, got -1"),
        ({"prompt": []}, "prompt: Tuple should have at least 1 item"),
        ({"prompt": [{"role": "user", "content": 3}]}, "prompt.0.content: Input should be a valid string"),
        ({"prompt": [{"role": "judge", "content": "x"}]}, "prompt.0.role: Input should be 'system', 'user'"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(change, said, tmp_path):
    path = written(tmp_path / "r.jsonl", json.dumps(GOOD), json.dumps({**GOOD, "sample": 1, **change}))
    with pytest.raises(InputError, match=r"r\.jsonl, line 2: ") as caught:
        read_responses(path)
    assert said in str(caught.value)


def test_broken_and_empty_files(tmp_path):
    with pytest.raises(ConfigError, match="expected a file of responses, got none there"):
        read_responses(tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match=r"ends in \.jsonl or \.jsonl\.gz"):
        read_responses(tmp_path / "r.parquet")
    with pytest.raises(InputError, match="expected at least one response, got an empty file"):
        read_responses(written(tmp_path / "empty.jsonl", ""))
