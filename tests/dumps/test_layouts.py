"""Files of other shapes: conversations as responses, fields by name, and what is said where a reward is missing."""

import math
import shlex

import pytest
from dumps import write_lines
from written import by_problem, dump_of, groups_of, read, rollouts, wrote

from geoalign.audit.command import AuditRequest
from geoalign.audit.inputs import find_inputs
from geoalign.console.terminal import Console
from geoalign.dumps.layout import MissingRolesError, find_layout
from geoalign.dumps.reading import read_dump
from geoalign.errors import ConfigError, InputError


def dialogue(problem, number):
    return [
        {"role": "user", "content": f"Change booking {problem}."},
        {"role": "assistant", "content": f"Way {number}."},
    ]


def trajectories(**fields):
    """As tau-bench writes them: no prompt, a conversation of each trial."""
    rows = rollouts(task_id=lambda problem, _: problem, traj=dialogue, **fields)
    return [{name: value for name, value in row.items() if name not in ("prompt", "response")} for row in rows]


@pytest.mark.parametrize("more", [{}, {"reward": "reward"}, {"group": "task_id"}])
def test_a_named_conversation_is_one_response(tmp_path, more):
    dump = dump_of(tmp_path, trajectories(), fields={"response": "traj", **more})
    assert dump.layout.format.name == "plain"
    assert groups_of(dump) == by_problem()
    assert dump.frame["response"].tolist()[:2] == ["Way 0.", "Way 1."]


def test_a_conversation_without_messages_is_an_empty_response(tmp_path):
    rows = trajectories()
    for first in (0, 4):
        rows[first]["traj"] = []
    dump = dump_of(tmp_path, rows, fields={"response": "traj"})
    assert dump.frame["response"].tolist()[:5] == ["", "Way 1.", "Way 2.", "Way 0.", ""]


def test_a_list_of_responses_stays_one(tmp_path):
    texts = {"answers": ["a", "b"], "marks": [1, 0]}
    dialogues = {"answers": [dialogue(0, 0), dialogue(0, 1)], "marks": [1, 0]}
    for more in (texts, dialogues):
        rows = [{"question": f"q{n}", **more} for n in range(3)]
        dump = dump_of(tmp_path, rows, fields={"response": "answers", "reward": "marks"})
        assert dump.layout.format.name == "responses"
        assert groups_of(dump) == [0, 0, 1, 1, 2, 2]
        assert dump.frame["reward"].tolist()[:2] == [1, 0]
    usual = [{"question": f"q{n}", "answers": ["a", "b"], "rewards": [1, 0]} for n in range(3)]
    assert groups_of(dump_of(tmp_path, usual, fields={"response": "answers"})) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("change", "message"), [
    ({"response": ["a", "b"]}, "response: expected a text or a list of chat messages, got a list of texts"),
    ({"prompt": []}, "prompt: expected a text or a list of chat messages, got an empty list"),
    ({"response": [1, 2]}, "response: expected a text or a list of chat messages, got a list of numbers"),
])  # fmt: skip
def test_a_message_does_not_contradict_itself(tmp_path, change, message):
    rows = rollouts()
    rows[4] |= change
    with pytest.raises(InputError, match=f"line 5: {message}"):
        dump_of(tmp_path, rows)


def test_other_roles_keep_their_usual_fields_beside_a_named_one(tmp_path):
    rows = [{"q": row["prompt"], "response": row["response"], "reward": row["reward"]} for row in rollouts()]
    assert dump_of(tmp_path, rows, fields={"prompt": "q"}).layout.fields["reward"] == "reward"


def said_of(folder, rows, command=()):
    path = wrote(folder, rows)
    with pytest.raises(ConfigError) as error:
        find_inputs(AuditRequest([str(path)], command=command), Console(quiet=True))
    return path, str(error.value)


def without_reward(**fields):
    rows = rollouts(prompt=lambda problem, _: f"question {problem}", **fields)
    return [{name: value for name, value in row.items() if name != "reward"} for row in rows]


@pytest.mark.parametrize(("fields", "guess"), [
    ({"score2": 0.5, "tokens": 7, "latency": 1.5}, "score2"),
    ({"is_correct": True, "length": 30}, "is_correct"),
    ({"mark": lambda _, number: number == 0, "step_count": 4}, "mark"),
    ({"judge": {"grade": 3, "why": "so"}, "seed": 4}, "judge.grade"),
    ({"temperature": 1.0, "how_good": 0.25}, "how_good"),
])  # fmt: skip
def test_without_a_reward_the_fields_and_a_ready_command_are_said(tmp_path, fields, guess):
    path, said = said_of(tmp_path, without_reward(**fields))
    assert f"{path}: found no reward. Its fields: prompt (text), response (text), " in said
    _, command = said.split(" Try: ")
    assert shlex.split(command) == ["geoalign", "audit", str(path), "--field", f"reward={guess}"]
    assert len(said.replace(str(path), "")) < 300
    # The command works.
    assert find_layout(path, fields={"reward": guess})[0].fields["reward"] == guess


def test_the_ready_command_is_what_was_typed_and_the_fields(tmp_path):
    rows = [{"question": row["prompt"], "text": row["response"] * 9, "ok": True} for row in rollouts()]
    _, said = said_of(tmp_path, rows, ["audit", "my dump.jsonl", "--json"])
    assert said.endswith(
        "found no reward and no response. Its fields: question (text), text (text), ok (true or false). "
        "Try: geoalign audit 'my dump.jsonl' --json --field reward=ok --field response=text"
    )


def chat(problem, number, system=(), last=True):
    asked = {"role": "user", "content": f"What is {problem}?"}
    said = [{"role": "assistant", "content": f"Way {number}."}] if last else []
    return [*system, asked, *said]


def parts(problem, number):
    return [{"role": "user", "content": [{"type": "text", "text": f"q{problem}"}]}, *chat(problem, number)[1:]]


def sharegpt(problem, number, sender="human"):
    asked = {"from": sender, "value": f"What is {problem}?"}
    return [{"from": "system", "value": "Be brief."}, asked, {"from": "gpt", "value": f"Way {number}."}]


def way(problem, number):
    return f"way {number}"


BRIEF = ({"role": "system", "content": "Be brief."},)
GOLD = {"answer": lambda problem, _: f"gold {problem}"}
# By name the fields of a file, and those that the suggested command names; None: it asks for one.
SHAPES = {
    "chat": ({"messages": chat, **GOLD}, {"response": "messages", "prompt": "messages.0.content"}),
    "chat and its source": (
        {"data_source": "sums", "messages": chat, "ground_truth": "3"},
        {"response": "messages", "prompt": "messages.0.content"},
    ),
    "chat and a note": (
        {"text": "some note", "messages": chat, **GOLD}, {"response": "messages", "prompt": "messages.0.content"},
    ),
    "chat with a system message": (
        {"messages": lambda problem, number: chat(problem, number, BRIEF), **GOLD},
        {"response": "messages", "prompt": "messages.1.content"},
    ),
    "chat of parts": ({"messages": parts, **GOLD}, {"response": "messages", "prompt": "messages.0.content.0.text"}),
    "chat of ShareGPT": (
        {"conversations": sharegpt, **GOLD}, {"response": "conversations", "prompt": "conversations.1.value"},
    ),
    "chat of a task": (
        {"task": lambda problem, _: f"task {problem}", "trajectory": chat, "expected": "3"},
        {"response": "trajectory", "prompt": "task"},
    ),
    "chat without the response": (
        {"chat": lambda problem, number: chat(problem, number, last=False), "generated": way, **GOLD},
        {"response": "generated", "prompt": "chat"},
    ),
    "question and answer": (
        {"question": lambda problem, _: f"q{problem}", "answer": way}, {"response": "answer"},
    ),
    "question and gold answer": ({"question": lambda problem, _: f"q{problem}", **GOLD}, {"response": None}),
    "no prompt": ({"text": way, **GOLD}, {"response": "text", "prompt": None}),
    "chat with a system message in some": (
        {"messages": lambda problem, number: chat(problem, number, BRIEF * (number % 2)), **GOLD},
        {"response": "messages", "prompt": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_the_suggested_command_names_no_gold_answer_and_works(tmp_path, name):
    fields, expected = SHAPES[name]
    rows = [{key: row[key] for key in (*fields, "reward")} for row in rollouts(**fields)]
    path, said = said_of(tmp_path, rows)
    words = shlex.split(said[said.index("geoalign audit") :])[3:]
    named = dict(word.split("=") for word in words if word != "--field")
    assert named == {role: field or "NAME" for role, field in expected.items()}
    assert ("Put the name of a field for NAME" in said) == (None in expected.values())
    if None not in expected.values():
        dump = read_dump(path, find_layout(path, fields=named)[0])
        assert groups_of(dump) == by_problem()
        assert dump.frame["response"].str.lower().str.startswith("way").all()


def test_messages_of_sharegpt_are_read_as_chat_messages(tmp_path):
    rows = [{"prompt": sharegpt(0, 0)[:2], "response": sharegpt(0, 0, sender="tool"), "reward": 1.0}]
    frame = dump_of(tmp_path, rows).frame
    assert frame["messages"][0] == (*BRIEF, {"role": "user", "content": "What is 0?"})
    # What a tool says is no part of the response.
    assert frame["response"][0] == "Way 0."


def test_a_role_that_was_typed_without_a_name_is_named_once(tmp_path):
    rows = [{"prompt": row["prompt"], "text": row["response"], "reward": row["reward"]} for row in rollouts()]
    path = wrote(tmp_path, rows)
    typed = ["audit", str(path), "--field", "response=", "--json"]
    with pytest.raises(ConfigError) as error:
        find_inputs(AuditRequest([str(path)], fields=["response="], command=typed), Console(quiet=True))
    assert str(error.value).endswith(f"geoalign audit {path} --json --field response=text")


def test_where_nothing_can_be_a_reward_its_name_is_asked_for(tmp_path):
    with pytest.raises(MissingRolesError) as error:
        find_layout(wrote(tmp_path, without_reward(tokens=4)))
    assert error.value.options == ("--field", "reward=NAME")


def test_a_field_that_is_not_there_is_named_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"reward: expected a field 'rewrad', .*: did you mean 'reward'\?"):
        find_layout(wrote(tmp_path, rollouts()), fields={"reward": "rewrad"})


def test_an_optional_field_that_is_not_there_is_named_with_the_nearest(tmp_path):
    path = wrote(tmp_path, rollouts(tokens=7))
    with pytest.raises(ConfigError, match=r"tokens: expected a field 'tokns', .*: did you mean 'tokens'\?"):
        find_layout(path, fields={"tokens": "tokns"})


@pytest.mark.parametrize("nothing", [{}, {"length": None}])
def test_an_optional_field_that_no_row_fills_is_said(tmp_path, nothing):
    dump = dump_of(tmp_path, rollouts(**nothing), fields={"tokens": "length", "system": ""})
    assert dump.remark == "No row fills 'length', named by --field tokens"


def test_an_optional_field_that_only_a_later_row_fills_is_read(tmp_path):
    rows = rollouts(problems=10)
    rows[-1]["length"] = 7
    dump = dump_of(tmp_path, rows, fields={"tokens": "length"})
    assert (dump.remark, dump.frame["tokens"].tolist()[-1]) == ("", 7)


def test_a_step_that_is_not_a_number_is_refused(tmp_path):
    steps = [7, math.nan, math.nan]
    rows = [{"prompt": "p", "response": f"r{row}", "reward": 1.0, "step": step} for row, step in enumerate(steps)]
    with pytest.raises(InputError, match=r"line 2.*step"):
        read(write_lines(tmp_path / "dump.jsonl", rows))
