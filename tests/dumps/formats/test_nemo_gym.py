import math

import pytest
from dumps import changed, nemo_gym, write_lines
from written import read

from geoalign.errors import InputError


def test_answers_tokens_and_truncation(tmp_path):
    layout, rows = read(write_lines(tmp_path / "rollouts.jsonl", nemo_gym()))
    assert layout.format.name == "nemo_gym"
    last_of_second = rows[7]
    assert (last_of_second.group_name, last_of_second.id) == ("1", "1-3")
    assert (last_of_second.answer, last_of_second.final_answer) == ("1", "3")
    assert last_of_second.tokens == 8
    assert (last_of_second.truncated, rows[6].truncated) == (True, False)


def test_instructions_tool_calls_and_a_prompt_that_is_a_text(tmp_path):
    (row, *_) = nemo_gym()
    row["responses_create_params"] = {"input": "question", "instructions": "Be brief."}
    row["response"]["output"][1:1] = [
        {"type": "function_call", "name": "add", "arguments": '{"a": 1}', "call_id": "0"},
        {"type": "function_call_output", "call_id": "0", "output": "2"},
    ]
    _, (found,) = read(write_lines(tmp_path / "rollouts.jsonl", [row]))
    assert found.messages == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "question"})
    assert found.response == '[assistant]\nadd({"a": 1})\n[tool]\n2\n[assistant]\nanswer 0.0'


def test_a_failure_without_a_reward_was_not_scored(tmp_path):
    rows = changed(nemo_gym(), 1, reward=..., _ng_failure_class="judge_failed")
    _, found = read(write_lines(tmp_path / "rollouts.jsonl", rows))
    assert math.isnan(found[1].reward)


def test_a_response_without_output_is_refused(tmp_path):
    rows = changed(nemo_gym(), 1, response={"output": None})
    with pytest.raises(InputError, match=r"line 2: response\.output: expected a list of what the model wrote"):
        read(write_lines(tmp_path / "rollouts.jsonl", rows))
