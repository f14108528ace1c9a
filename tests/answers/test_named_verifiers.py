"""The one list of verifiers: what a name means, under which name it is shown, and a verifier as a training's reward."""

import json
import sys

import pytest

from geoalign.answers.function import function_rewards
from geoalign.answers.naive import substring
from geoalign.answers.verifiers import function_verifier, named_verifier, second_verifier, verifier_reward
from geoalign.errors import ConfigError

ROWS = [{"prompt": "2 + 2?", "response": f"so \\boxed{{{n}}}", "answer": "4", "final_answer": None} for n in (4, 5)]


def named(text, **endpoint):
    return named_verifier(text, endpoint, key="--verifiers", section="endpoint")


@pytest.mark.parametrize(("text", "name", "kind"), [
    ("math_verify", "math_verify", "math_verify"),
    ("geoalign.answers.naive:strict", "strict", "function"),
    ("gold=geoalign.answers.naive:strict", "gold", "function"),
    (f"{sys.executable} -c 0", None, "command"),
    (f"judge={sys.executable} -c a=b", "judge", "command"),
])  # fmt: skip
def test_a_name_says_what_a_verifier_is(text, name, kind):
    found = named(text)
    assert found.kind == kind
    assert name in (found.name, None)


def test_an_endpoint_is_called_by_its_host():
    assert named("https://host.example:80/v1", model="m").name == "host.example"


def test_a_function_gets_columns_as_trl_gives_them():
    def judge(prompts, completions, answer, **columns):
        assert columns == {"final_answer": [None, None]}
        assert prompts == ["2 + 2?"] * 2
        return [float(gold in completion) for gold, completion in zip(answer, completions, strict=True)]

    assert function_verifier(judge).judge(ROWS) == [1.0, 0.0]


def test_a_function_gets_messages_where_the_prompt_is_messages():
    seen = []

    def judge(prompts, completions, **columns):
        seen.extend(completions)
        return [None]

    prompt = [{"role": "user", "content": "2 + 2?"}]
    assert function_verifier(judge).judge([{**ROWS[0], "prompt": prompt}]) == [None]
    assert seen == [[{"role": "assistant", "content": ROWS[0]["response"]}]]


def test_functions_are_second_verifiers():
    judge = second_verifier(
        "geoalign.answers.naive:substring", {}, key="reward.second_verifier", section="reward.endpoint"
    )
    assert judge(ROWS) == [1.0, 0.0]


def test_what_is_no_verifier_is_named_with_the_option():
    with pytest.raises(ConfigError, match=r"--verifiers: expected math_verify, a function MODULE:NAME"):
        named("no-such-command")
    with pytest.raises(ConfigError, match=r"--verifiers: expected MODULE:NAME"):
        named("nowhere:f")


def test_math_verify_and_a_command_are_rewards_of_a_training(tmp_path):
    """As TRL calls a reward function: with columns, and with more that is no column."""
    (tmp_path / "judge.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    row = json.loads(line)\n"
        "    print(json.dumps({'correct': None if row['n'] else row['answer'] in row['response']}))\n"
    )
    columns = {
        "prompts": ["2 + 2?"] * 2,
        "completions": [[{"role": "assistant", "content": row["response"]}] for row in ROWS],
        "answer": ["4", "4"],
        "n": [0, 1],
        "trainer_state": object(),
    }
    assert function_rewards(verifier_reward("math_verify", {}), 2, **columns) == [1.0, 0.0]
    by_command = function_rewards(verifier_reward(f"{sys.executable} {tmp_path / 'judge.py'}", {}), 2, **columns)
    assert json.dumps(by_command) == "[1.0, NaN]"
    assert verifier_reward("geoalign.answers.naive:substring", {}) is substring


def test_math_verify_accepts_any_of_several_gold_answers():
    pytest.importorskip("math_verify")
    judge = named("math_verify").judge
    rows = [{"response": rf"\boxed{{{said}}}", "answer": ["7", "1/2"]} for said in ("0.5", "7", "8")]
    assert judge([*rows, {"response": r"\boxed{8}", "answer": []}]) == [True, True, False, None]
