"""Bad and hostile input: refused with file, line and field, or skipped and listed; nothing is half written."""

import pyarrow.parquet as pq
import pytest
from dumps import GROUPS, SIZE, changed, plain, responses, trinity, verdicts, verl, write_dump, write_lines

from geoalign.audit.words.reading import what_was_read
from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import read_dump
from geoalign.errors import ConfigError, InputError

BAD_ROWS = {
    "reward as text": (changed(plain(), 5, reward="0.5"), r"line 6: reward: expected a number, got a text"),
    "infinite reward": (changed(plain(), 5, reward=float("inf")), r"line 6: reward: expected a finite number"),
    "negative length": (changed(plain(), 5, tokens=-1), r"line 6: tokens: expected a number of tokens, .*, got -1"),
    "no reward": (changed(plain(), 5, reward=...), r"line 6: reward: expected the reward .* got no such field"),
    "no prompt": (changed(plain(), 5, prompt=None), r"line 6: prompt: expected the prompt of the rollout, got null"),
    "bad message": (changed(plain(), 5, prompt=[{"content": 1}]), r"line 6: prompt.0: expected a chat message"),
    "id twice": (changed(plain(), 5, id="0-1"), r"line 6: id: duplicate id '0-1' \(first on line 2\)"),
    "no step": (changed(verl(), 5, step=...), r"line 6: step: expected the step of the rollout, got none"),
    "length as a word": (changed(plain(), 5, tokens="many"), r"line 6: tokens: .* a list of them, got 'many'"),
    "tokens in lists": (changed(plain(), 5, tokens=[[1]]), r"line 6: tokens: .* a list of them, got a list"),
    "step as a word": (changed(verl(), 5, step="last"), r"line 6: step: expected a whole number .*, got 'last'"),
    "accuracy of a half": (changed(verl(), 9, acc=0.5), r"expected true or false, got 0.5"),
    "a later step": (changed(trinity(), 5, eid={**trinity()[5]["eid"], "step": 1}), r"line 6: eid.step: .* 0: one exp"),
    "few rewards": (changed(responses(), 4, pred_score=[[1.0]] * 3), r"line 5: pred_score: expected 4 .*, got 3"),
    "empty list": (changed(responses(), 4, response=[], pred_score=[]), r"line 5: response: expected a list of resp"),
}


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_bad_row_is_refused_with_its_place_and_can_be_skipped(kind, tmp_path):
    rows, message = BAD_ROWS[kind]
    path = write_lines(tmp_path / "dump.jsonl", rows)
    layout = find_layout(path, fields={"correct": "acc"} if kind == "accuracy of a half" else None)[0]
    with pytest.raises(InputError, match=rf"dump.jsonl, .*{message}"):
        read_dump(path, layout)
    dump = read_dump(path, layout, skip_bad=True)
    (skipped,) = dump.skipped
    assert skipped.file == str(path)
    assert skipped.reason.startswith("expected")
    assert "half" in kind or f"line {skipped.line}:" in message
    assert len(dump.frame) == GROUPS * SIZE - (SIZE if "pred_score" in rows[0] else 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["behind", "in front"])
def test_the_reward_of_a_skipped_row_counts_in_no_file(tmp_path, run, order):
    """Failed calls often have a reward of their own, such as -1. Of the rows that are left all rewards are verdicts."""
    good = write_lines(tmp_path / "good.jsonl", verdicts())
    bad = write_lines(tmp_path / "bad.jsonl", changed(verdicts(), 4, response=None, reward=-1.0))
    files = (good, bad)
    summary = run(*(files[place] for place in order), skip_bad=True, draw_checks=4)
    assert summary["counts"]["skipped"] == 1
    assert summary["checks"]["drawn"] == 4


@pytest.mark.parametrize("named", [True, False])
def test_a_field_may_hold_gold_answers_and_a_response_does_not(tmp_path, run, caplog, named):
    """All responses to a prompt give one answer, in their text or in a field that the user calls the final answer."""
    rows = [
        {
            "prompt": f"q{row // 4}",
            "response": f"way {row} \\boxed{{{row // 4}}}",
            "reward": row % 2,
            "gold": str(row // 4),
        }
        for row in range(16)
    ]
    path = write_lines(tmp_path / "rollouts.jsonl", rows)
    run(path, curator="denoise", fields=("final_answer=gold",) if named else ())
    assert ("gold answers?" in caplog.text) == named


def test_skipped_rows_are_counted_and_nothing_is_half_written(tmp_path, run):
    path = write_lines(tmp_path / "dump.jsonl", changed(plain(), 5, reward="0.5"))
    with pytest.raises(InputError, match=r"line 6: reward"):
        run(path)
    assert not (tmp_path / "out" / "summary.json").exists()
    assert not (tmp_path / "out" / ".partial").exists()
    second = write_lines(tmp_path / "second.jsonl", changed(responses(), 4, response=None))
    first = write_lines(tmp_path / "first.jsonl", responses())
    assert run(first, second, output=tmp_path / "two", skip_bad=True)["counts"]["skipped"] == 1
    summary = run(path, skip_bad=True)
    assert summary["counts"]["skipped"] == summary["inputs"][0]["skipped"] == len(summary["skipped"]) == 1
    assert (summary["skipped"][0]["line"], summary["counts"]["rows"]) == (6, GROUPS * SIZE - 1)
    assert len(pq.read_table(tmp_path / "out" / "scores.parquet")) == GROUPS * SIZE - 1


def test_groups_of_different_sizes(tmp_path, run):
    rows = [row for row in plain() if row["id"] != "5-0"]
    path = write_lines(tmp_path / "dump.jsonl", rows)
    summary = run(path)
    assert summary["inputs"][0]["group_sizes"] == {"3": 1, "4": 11}
    assert f"Groups differ in size in {path}: they have 3 to 4 rollouts." in list(what_was_read(summary))
    of_three = {"response": ["a"] * 3, "pred_score": [1.0] * 3, "score": [True] * 3, "pred": ["1"] * 3}
    listed = changed(responses(), 2, **of_three)
    summary = run(write_lines(tmp_path / "lists.jsonl", listed), output=tmp_path / "lists")
    assert summary["inputs"][0]["group_sizes"] == {"3": 1, "4": 11}


@pytest.mark.parametrize(("name", "content", "error", "message"), [
    ("empty.jsonl", "\n\n", InputError, "expected at least one rollout, got an empty file"),
    ("missing.jsonl", None, ConfigError, "expected a file of rollouts, got none there"),
    ("a.xlsx", "x", ConfigError, r"expected a name that ends in \.jsonl"),
])  # fmt: skip
def test_what_is_no_dump(tmp_path, run, name, content, error, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(error, match=f"{name}: {message}"):
        run(tmp_path / name)


def test_arguments_that_name_no_dump_or_no_field(tmp_path, run):
    path = write_dump(tmp_path / "in", "verl")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=r"folder: expected files that end in .jsonl"):
        run(tmp_path / "folder")
    with pytest.raises(ConfigError, match="expected each file once"):
        run(path, path)
    for texts, message in (
        (("rewrad=score",), "a role of prompt, system, response, reward"),
        (("reward",), "expected ROLE=NAME"),
        (("reward=score", "reward=acc"), "--field reward: expected once"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(path, fields=texts)


def test_an_unscored_rollout_is_no_donor_and_keeps_its_place(tmp_path, run):
    rows = changed(plain(), 13, reward=None)
    summary = run(write_lines(tmp_path / "dump.jsonl", rows))
    assert summary["counts"]["unscored"] == 1
    row = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()[13]
    assert [row[name] for name in ("reward", "new_reward", "score", "source", "weight")] == [None, None, None, 13, 0.0]
    assert row["group_mean"] == pytest.approx((0 + 9 + 0.3) / 3)


def test_the_output_is_not_anybody_elses_folder(tmp_path, run):
    path = write_dump(tmp_path / "in", "verl")
    for name in ("thesis.tex", "report.html"):
        (tmp_path / f"my {name}").mkdir()
        (tmp_path / f"my {name}" / name).write_text("mine")
        with pytest.raises(ConfigError, match=rf"expected a new folder or an earlier audit, got {name} in it"):
            run(path, output=tmp_path / f"my {name}")
    with pytest.raises(ConfigError, match="expected a folder without the inputs"):
        run(path, output=tmp_path / "in")
    run(path, filtered=True)
    with pytest.raises(ConfigError, match="got a finished audit: --overwrite replaces it"):
        run(path)
    with pytest.raises(ConfigError, match="expected a folder without the inputs"):
        run(tmp_path / "out" / "filtered.jsonl", overwrite=True)
    summary = run(path, overwrite=True, redact=True)
    assert summary["redacted"]
    assert not (tmp_path / "out" / "filtered.jsonl").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="expected a folder, got a file"):
        run(path, output=tmp_path / "file")


def test_skipped_rows_are_named(tmp_path, run):
    path = write_lines(tmp_path / "dump.jsonl", changed(plain(), 5, reward="\x1b[2J"))
    lines = list(what_was_read(run(path, skip_bad=True)))
    assert lines[0] == f"Skipped: {path}, line 6: reward: expected a number, got a text"


def test_a_named_field_that_no_row_of_one_file_fills_is_said_with_the_file(tmp_path, run):
    with_lengths = write_lines(tmp_path / "0.jsonl", [{**row, "step": 0, "chars": 5} for row in plain()])
    without = write_lines(tmp_path / "1.jsonl", [{**row, "step": 1} for row in plain()])
    lines = list(what_was_read(run(with_lengths, without, fields=["tokens=chars"])))
    assert f"No row fills 'chars', named by --field tokens ({without})." in lines
