import json

import pytest
from dumps import each, trl
from written import read

from geoalign.errors import ConfigError, InputError


def test_conversations_and_several_rewards(tmp_path):
    table = trl()
    table["prompt"] = [[{"role": "user", "content": text}] for text in table["prompt"]]
    table["completion"] = [[{"role": "assistant", "content": text}] for text in table["completion"]]
    table.insert(4, "format_reward", 0.5)
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match=r"got accuracy_reward, format_reward.*--field reward=accuracy_reward\+"):
        read(tmp_path / "t.parquet")
    _, rows = read(tmp_path / "t.parquet", fields={"reward": "accuracy_reward+format_reward"})
    assert [row.reward for row in rows] == [reward + 0.5 for _, _, reward in each()]
    assert rows[0].messages == ({"role": "user", "content": "question 0"},)
    assert rows[5].response == "answer 1.1"


def test_answers_that_a_reward_function_logs_are_no_rewards(tmp_path):
    table = trl()
    table.insert(3, "golden_answer", "gold")
    table.insert(4, "extracted_answer", "7")
    table.to_parquet(tmp_path / "t.parquet")
    layout, _ = read(tmp_path / "t.parquet")
    assert layout.fields["answer"] == "golden_answer"
    assert layout.fields["final_answer"] == "extracted_answer"
    assert layout.fields["reward"] == "accuracy_reward"


def test_a_table_of_wandb(tmp_path):
    table = trl()
    table.to_parquet(tmp_path / "a.parquet")
    _, expected = read(tmp_path / "a.parquet")
    path = tmp_path / "completions_1_ab.table.json"
    saved = {"columns": [*table.columns], "data": table.to_numpy().tolist(), "ncols": table.shape[1]}
    path.write_text(json.dumps(saved))
    _, found = read(path)
    assert [(row.response, row.reward) for row in found] == [(row.response, row.reward) for row in expected]
    path.write_text(json.dumps({**saved, "data": [["too short"]]}))
    with pytest.raises(InputError, match=r"ab\.table\.json, row 1: expected a JSON object, got list"):
        read(path)
