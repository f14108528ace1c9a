import pytest
from dumps import nemo_rl, write_lines
from written import read

from geoalign.errors import InputError


def test_turns_of_the_policy_and_the_environment(tmp_path):
    (row, *_) = nemo_rl()
    messages = ["system and question", "first", "Environment: no", "second", "Environment: yes"]
    answered = {**row, "content": [messages], "token_loss_mask": [[0, 1, 0, 1, 0]], "input_lengths": [5]}
    unanswered = {**answered, "content": [messages[:4]], "input_lengths": [4]}
    _, found = read(write_lines(tmp_path / "a.jsonl", [answered, unanswered]))
    assert {row.prompt for row in found} == {"system and question"}
    assert {row.response for row in found} == {"first\n\nEnvironment: no\n\nsecond"}


@pytest.mark.parametrize(("change", "message"), [
    ({"content": [["alone"]]}, "content: expected the texts of two messages or more"),
    ({"token_loss_mask": [[0, 0]]}, "token_loss_mask: expected a prompt and turns of the policy"),
])  # fmt: skip
def test_rows_that_hold_no_rollout(tmp_path, change, message):
    with pytest.raises(InputError, match=f"line 1: {message}"):
        read(write_lines(tmp_path / "a.jsonl", [{**nemo_rl()[0], **change}]))
