import math

import pytest
from dumps import verifiers, write_lines
from written import read

from geoalign.dumps.layout import find_layout
from geoalign.errors import InputError


def test_ids_answers_and_steps(tmp_path):
    _, found = read(write_lines(tmp_path / "traces.jsonl", verifiers()))
    assert (found[7].id, found[7].answer, found[7].step) == ("1-3", "1", 3)


def test_the_folder_of_prime_rl_names_the_step(tmp_path):
    folder = tmp_path / "rollouts" / "step_9" / "train" / "all"
    folder.mkdir(parents=True)
    layout, step = find_layout(write_lines(folder / "traces.jsonl", verifiers(step=8)))
    assert step == 9
    assert "step" not in layout.fields


def test_turns_and_tool_calls(tmp_path):
    (episode, *_) = verifiers()
    nodes = episode["traces"][0]["nodes"]
    nodes[1]["message"]["tool_calls"] = [{"id": "0", "name": "add", "arguments": '{"a": 1}'}]
    nodes.append({"parent": 1, "message": {"role": "tool", "tool_call_id": "0", "content": "2"}})
    nodes.append({"parent": 0, "sampled": True, "message": {"role": "assistant", "content": "left"}})
    nodes.append({"parent": 2, "sampled": True, "message": {"role": "assistant", "content": "done"}})
    failed = {**episode, "id": "f", "traces": [{**episode["traces"][0], "rewards": {}}]}
    _, (first, second) = read(write_lines(tmp_path / "traces.jsonl", [episode, failed]))
    assert first.response == '[assistant]\nanswer 0.0\nadd({"a": 1})\n[tool]\n2\n[assistant]\ndone'
    assert first.reward == 0
    assert math.isnan(second.reward)


@pytest.mark.parametrize(("traces", "message"), [
    (["x"], "expected episodes of verifiers or prime-rl, got a field"),
    ([], "traces: expected one trace that trains the policy, got 0"),
])  # fmt: skip
def test_rows_that_hold_no_rollout(tmp_path, traces, message):
    with pytest.raises(InputError, match=f"line 1: {message}"):
        read(write_lines(tmp_path / "traces.jsonl", [{**verifiers()[0], "traces": traces}]))


def test_texts_in_a_list_of_parts_are_read(tmp_path):
    (episode, *_) = verifiers()
    nodes = episode["traces"][0]["nodes"]
    nodes[1]["message"]["content"] = ["one", {"type": "text", "text": "two"}]
    _, (first,) = read(write_lines(tmp_path / "traces.jsonl", [episode]))
    assert first.response == "one\ntwo"
