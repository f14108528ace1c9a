import csv
import json

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.dumps.flagged_csv import restored, safe
from geoalign.dumps.labels import read_labelled_rollouts
from geoalign.errors import ConfigError, InputError

ROWS = [
    {"prompt": "1+1", "response": "2", "reward": 1, "group": "a"},
    {"prompt": "1+1", "response": "3", "reward": 0, "group": "a", "final_answer": "3", "truncated": True},
    {"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "2+2"}], "response": "4", "reward": 0.5,
     "group": "b"},
]  # fmt: skip


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_rollouts_one_a_row(tmp_path):
    labelled = read_labelled_rollouts(jsonl(tmp_path / "a.jsonl", ROWS))
    asked = ({"role": "user", "content": "1+1"},)
    assert list(labelled.prompts) == [asked, asked, tuple(ROWS[2]["prompt"])]
    assert list(labelled.responses) == ["2", "3", "4"]
    assert list(labelled.rewards) == [1.0, 0.0, 0.5]
    assert labelled.group_numbers.tolist() == [0, 0, 1]
    assert list(labelled.answers) == [None, "3", None]
    assert list(labelled.truncated) == [False, True, False]


def test_rendered_prompts_stay_as_they_were(tmp_path):
    rows = [
        {"input": "<u>1+1<a>", "output": str(n), "score": float(n == 2), "step": 1, "gts": "2", "uid": f"u_0_{n}"}
        for n in (2, 3)
    ]
    assert list(read_labelled_rollouts(jsonl(tmp_path / "1.jsonl", rows)).prompts) == ["<u>1+1<a>"] * 2


def test_true_rewards_come_before_corrupted_ones(tmp_path):
    rows = [{**row, "true_reward": true} for row, true in zip(ROWS, (0.0, 1.0, None), strict=True)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows[:2]), tmp_path / "a.parquet")
    assert list(read_labelled_rollouts(tmp_path / "a.parquet").rewards) == [0.0, 1.0]
    assert list(read_labelled_rollouts(jsonl(tmp_path / "a.jsonl", rows)).rewards) == [0.0, 1.0, 0.5]


def flagged(path, texts, labels):
    columns = ("step", "line", "sample", "group", "prompt", "response", "label")
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for line, (text, label) in enumerate(zip(texts, labels, strict=True), start=1):
            writer.writerow([1, line, line - 1, 7, safe("-1 + 1"), safe(text), label])
    return path


def test_a_filled_in_flagged_csv(tmp_path):
    """Rows without a label are left out; what was made safe for spreadsheets is as it was."""
    texts = ["=2\nis it", "'quoted'", "never seen", "\ttab", "3"]
    labelled = read_labelled_rollouts(flagged(tmp_path / "flagged.csv", texts, ["1", "0", "", "0", "0.5"]))
    assert list(labelled.responses) == ["=2\nis it", "'quoted'", "\ttab", "3"]
    assert list(labelled.rewards) == [1.0, 0.0, 0.0, 0.5]
    assert list(labelled.prompts) == [({"role": "user", "content": "-1 + 1"},)] * 4
    assert labelled.group_numbers.tolist() == [0] * 4
    assert labelled.answers is None


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("=+-@'\t\n"), max_size=9))
def test_a_cell_is_the_text_again(text):
    """But for a text that looks as if it had been made safe already, and control characters."""
    quoted = text.startswith("'") and safe(text[1:]) != text[1:]
    assert restored(safe(text)) == (text[1:] if quoted else text)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**ROWS[0], "reward": None}, ROWS[1]], r"line 1: reward: expected the true reward of a labelled rollout"),
        ([ROWS[0], {**ROWS[1], "reward": "no"}], r"line 2: reward: expected a number, got a text"),
        ([ROWS[0], {**ROWS[1], "group": "c"}], r"a\.jsonl: labelled_rollouts: .* with two different rewards"),
    ],
)
def test_bad_dumps(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_labelled_rollouts(jsonl(tmp_path / "a.jsonl", rows))


def test_bad_files(tmp_path):
    long = flagged(tmp_path / "long.csv", ["x" * 40_000, "y"], ["1", "0"])
    with pytest.raises(InputError, match=r"line 2: response: expected the whole text, got one that was cut"):
        read_labelled_rollouts(long)
    redacted = tmp_path / "redacted.csv"
    redacted.write_text("step,line,sample,group,label\n1,1,0,0,1\n")
    with pytest.raises(InputError, match=r"line 1: expected the columns group, prompt, response, got"):
        read_labelled_rollouts(redacted)
    with pytest.raises(InputError, match=r"none\.csv: labelled_rollouts: expected a group with two"):
        read_labelled_rollouts(flagged(tmp_path / "none.csv", ["x"], [""]))
    for name in ("gone.jsonl", "gone.csv"):
        with pytest.raises(ConfigError, match=rf"{name}: expected a .*, got none there"):
            read_labelled_rollouts(tmp_path / name)
