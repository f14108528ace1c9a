"""Every format is found by itself, and read alike; a test of what one format has of its own stands in formats/."""

import json

import pytest
from dumps import GROUPS, SIZE, all_responses, all_rewards, each, plain, trinity, write_dump, write_lines
from written import read

from geoalign.dumps.formats import FORMATS
from geoalign.dumps.reading import read_rewards
from geoalign.errors import ConfigError


@pytest.mark.parametrize("name", FORMATS)
def test_found_by_itself_and_read(name, tmp_path):
    path = write_dump(tmp_path, name)
    layout, rows = read(path)
    assert layout.format.name == name
    assert read_rewards(path, layout) == [row.reward for row in rows]
    assert len(rows) == GROUPS * SIZE
    assert [row.reward for row in rows] == all_rewards()
    assert [row.sample for row in rows] == [row for _, row, _ in each()]
    assert [row.response for row in rows] == all_responses()
    assert {row.prompt for row in rows} == {f"question {g}" for g in range(GROUPS)}
    assert len({row.group for row in rows}) == GROUPS
    assert len({row.id for row in rows}) == GROUPS * SIZE


def test_a_format_by_name(tmp_path):
    path = write_dump(tmp_path, "verl")
    layout, _ = read(path, name="plain")
    assert layout.format.name == "plain"
    with pytest.raises(ConfigError, match=r"--format: expected one of geoalign, .*; got 'trinty'"):
        read(path, name="trinty")
    table = write_lines(tmp_path / "t.jsonl", [{"prompt": "a", "advantage": 0.5, "r": 1}])
    for file, fields in ((path, {"reward": "score"}), (table, {})):
        with pytest.raises(ConfigError, match="found no "):
            read(file, name="trl", fields=fields)


def test_a_json_file_holds_lines_or_one_array(tmp_path):
    rows = trinity()
    path = write_lines(tmp_path / "trinity.json", rows)
    _, lines = read(path)
    assert len(lines) == GROUPS * SIZE
    for content in (rows, {"version": 1, "data": rows}):
        for indent in (None, 2):
            path.write_text(json.dumps(content, indent=indent))
            _, found = read(path)
            assert [(row.response, row.reward, row.group) for row in found] == [
                (row.response, row.reward, row.group) for row in lines
            ]


def test_an_array_under_any_name_in_an_object(tmp_path):
    path = tmp_path / "a.json"
    viewer_rows = [{"row_idx": 0, "row": row, "truncated_cells": []} for row in plain()]
    for content in (
        {"model": "m", "generations": plain()},
        {"features": [{"name": "id"}], "rows": viewer_rows},
    ):
        path.write_text(json.dumps(content))
        _, found = read(path)
        assert [row.reward for row in found] == all_rewards()


def test_an_object_with_a_conversation_is_one_rollout(tmp_path):
    turns = [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"prompt": "2+2", "completion": turns, "reward": 1}, indent=2))
    _, found = read(path)
    assert [row.response for row in found] == ["4"]


def test_another_format_by_its_fields(tmp_path):
    rows = []
    for group, place, reward in each():
        meta = {"rm": reward, "ok": reward > 1}
        rows.append({"q": f"question {group}", "meta": meta, "out": f"answer {group}.{place}"})
    path = write_lines(tmp_path / "a.jsonl", rows)
    message = r"found no reward and no response and no prompt\. Its fields: q \(text\), meta.rm"
    with pytest.raises(ConfigError, match=message) as error:
        read(path)
    assert error.value.options == ("--field", "reward=meta.rm", "--field", "response=out", "--field", "prompt=q")
    fields = {"prompt": "q", "response": "out"}
    _, scored = read(path, fields={**fields, "reward": "meta.rm"})
    assert [row.reward for row in scored] == all_rewards()
    assert scored[6].response == "answer 1.2"
    # A field that is not named for rewards may hold verdicts.
    _, judged = read(path, fields={**fields, "reward": "meta.ok"})
    assert [row.reward for row in judged] == [float(reward > 1) for reward in all_rewards()]


def test_one_question_under_two_system_messages_is_two_prompts(tmp_path):
    rows = plain()
    for place, row in enumerate(rows):
        row["prompt"] = "same"
        row["system"] = f"rule {place // SIZE}"
    _, found = read(write_lines(tmp_path / "a.jsonl", rows))
    assert [row.group_name for row in found[: SIZE + 1]] == ['["rule 0", "same"]'] * SIZE + ['["rule 1", "same"]']
    assert len({row.group for row in found}) == GROUPS
    _, bare = read(write_lines(tmp_path / "b.jsonl", [{**row, "system": None} for row in plain()]))
    assert bare[0].group_name == "question 0"
