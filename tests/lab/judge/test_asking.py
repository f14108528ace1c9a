import asyncio
import json
from contextlib import aclosing

import pytest
from judge_server import Reply, verdict

from geoalign.endpoint.chat import answer_to, chat_endpoint
from geoalign.endpoint.client import BadReplyError
from geoalign.lab.judge.asking import JudgeVerdict, Question, ask_local, judge_messages, parse_verdict

ONE = Question(({"role": "user", "content": "Hello"},), "left", "a right one")
GOOD = verdict("model_b", 0.25, 0.75)
ANSWER = '{"overall_winner": "model_b", "model_a_score": 0.25, "model_b_score": 0.75}'


def ask(config, comparison=ONE):
    async def once():
        async with aclosing(chat_endpoint(config)) as endpoint:
            return await answer_to(judge_messages(comparison), endpoint, config)

    return asyncio.run(once())


def text(winner="model_a", a=0.8, b=0.6):
    return json.dumps({"overall_winner": winner, "model_a_score": a, "model_b_score": b})


def verdict_of(winner, a, b):
    return JudgeVerdict(overall_winner=winner, model_a_score=a, model_b_score=b)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (text(), verdict_of("model_a", 0.8, 0.6)),
        (text("model_b", 0, 1), verdict_of("model_b", 0.0, 1.0)),
        (text("tie", 0.9, 0.1), verdict_of("tie", 0.9, 0.1)),
        (f"\n\t {text()} \r\n", verdict_of("model_a", 0.8, 0.6)),
        (f"```json\n{text()}\n```", verdict_of("model_a", 0.8, 0.6)),
        (f"```\r\n{text()}\r\n```\n", verdict_of("model_a", 0.8, 0.6)),
    ],
)
def test_verdicts(answer, expected):
    assert parse_verdict(answer) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "", "model_a", f"The verdict: {text()}", f"{text()}\n{text('model_b', 0.1, 0.2)}",
        f"<think>hm</think>{text()}", f"```python\n{text()}\n```", "[" * 5000, "\ud800",
        '{"overall_winner": "tie"}', text()[:-1] + ', "reason": "x"}', text(None), text("model_a", 0.8, 0.8),
        text("model_b", 0.8, 0.2), text("model_a", True, False), text("tie", "0.8", 0.6), text("tie", 0.5, -0.1),
        text("tie", float("nan"), 0.6), text("tie", 0.5, float("inf")),
    ],
)  # fmt: skip
def test_anything_else_is_malformed(answer):
    assert parse_verdict(answer) is None


def test_the_local_rule_by_hand():
    prompt = ({"role": "user", "content": "cooking soup"}, {"role": "user", "content": "What do blue whales eat?"})
    # Words of the last turn: what, do, blue, whales, eat; the first response has 3 of 5, the second none.
    answer = asyncio.run(ask_local(Question(prompt, "Blue whales eat krill.", "cooking soup")))
    assert parse_verdict(answer) == verdict_of("model_a", 0.6, 0.0)
    assert parse_verdict(asyncio.run(ask_local(Question(prompt, "", "?!")))) == verdict_of("tie", 0.0, 0.0)


def test_the_request(server, settings, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    server.reply = lambda request: GOOD
    assert ask(settings(request={"seed": 3, "max_tokens": None, "max_completion_tokens": 64})) == ANSWER
    assert server.paths == ["/v1/chat/completions"]
    sampling = {"temperature": 0.0, "seed": 3, "max_completion_tokens": 64}
    assert server.requests == [{"model": "test-judge", "messages": judge_messages(ONE), **sampling}]
    assert server.headers[0]["Authorization"] == "Bearer sk-1"


@pytest.mark.parametrize(
    "body",
    [
        "{broken",
        '{"error": {"message": "overloaded"}}',
        '{"choices": [{"message": "content"}]}',
        '{"choices": [{"message": {"content": ["x"]}}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_completion_is_an_error(body, server, settings):
    server.reply = lambda request: Reply(body)
    with pytest.raises(BadReplyError, match="expected a chat completion in JSON, got "):
        ask(settings())
