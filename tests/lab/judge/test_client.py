import asyncio
import random
import time
from collections.abc import Callable

import pytest
from judge_server import JudgeServer, Reply, completion, judged_texts, verdict

from geoalign.errors import ConfigError
from geoalign.lab.config.judge import JudgeConfig
from geoalign.lab.http_client.client import MAX_REPLY_BYTES
from geoalign.lab.judge.asking import RequestFailedError
from geoalign.lab.judge.client import EndpointJudge
from geoalign.lab.judge.prompt import Comparison, judge_messages

Settings = Callable[..., JudgeConfig]

ONE = Comparison(({"role": "user", "content": "Hello"},), "left", "a right one")
GOOD = verdict("model_b", 0.25, 0.75)
ANSWER = '{"overall_winner": "model_b", "model_a_score": 0.25, "model_b_score": 0.75}'


def ask(config: JudgeConfig, comparison: Comparison = ONE) -> str:
    async def once() -> str:
        async with EndpointJudge(config) as judge:
            return await judge.ask(comparison)

    return asyncio.run(once())


def test_the_request(server: JudgeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    server.says(GOOD)
    assert ask(settings(request={"seed": 3, "max_tokens": None, "max_completion_tokens": 64})) == ANSWER
    assert server.paths == ["/v1/chat/completions"]
    assert server.requests == [
        {
            "model": "test-judge",
            "messages": judge_messages(ONE),
            "temperature": 0.0,
            "seed": 3,
            "max_completion_tokens": 64,
        }
    ]
    assert server.headers[0]["Authorization"] == "Bearer sk-1"
    assert server.headers[0]["Content-Type"] == "application/json"


def test_without_a_key_none_is_sent(server: JudgeServer, settings: Settings) -> None:
    server.says(GOOD)
    ask(settings())
    assert "Authorization" not in server.headers[0]


AGAIN = {
    "429": Reply("slow down", 429),
    "500": Reply("{}", 500),
    "503 with a page": Reply("<html>down</html>", 503, {"Content-Type": "text/html"}),
    "closed": Reply(hang_up=True),
    "cut": Reply("x" * 1000, cut=True),
    "late": Reply(ANSWER, delay=1.5),
    "trickling": Reply(" " * 100, trickle=0.05),
    "no JSON": Reply("{broken"),
    "no text in it": Reply("[]"),
    "a page": Reply("<html>hello</html>", 200, {"Content-Type": "text/html"}),
    "an error as success": Reply('{"error": {"message": "overloaded"}}'),
    "no choices": Reply('{"choices": []}'),
    "a message that is text": Reply('{"choices": [{"message": "content"}]}'),
    "a content that is a list": Reply('{"choices": [{"message": {"content": []}}]}'),
    "deep": Reply("[" * 100_000),
    "no UTF-8": Reply(b"\xff\xfe\x00"),
    "packed": Reply(b"\x1f\x8b\x08\x00", headers={"Content-Encoding": "gzip"}),
    "too long": Reply(b" " * (MAX_REPLY_BYTES + 1)),
}


@pytest.mark.parametrize("name", AGAIN)
def test_what_may_go_better_is_tried_again(name: str, server: JudgeServer, settings: Settings) -> None:
    slow = name in ("late", "trickling")
    server.says(AGAIN[name], GOOD)
    assert ask(settings(timeout=1.0 if slow else 5.0)) == ANSWER
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("429", "HTTP 429: slow down"),
        ("closed", "ReadError|RemoteProtocolError"),
        ("late", r"no answer within 0\.3 s"),
        ("no JSON", r"expected a chat completion in JSON, got \{broken"),
        ("too long", f"an answer of more than {MAX_REPLY_BYTES} bytes"),
    ],
)
def test_after_the_last_try_it_fails(name: str, said: str, server: JudgeServer, settings: Settings) -> None:
    server.says(AGAIN[name])
    with pytest.raises(RequestFailedError, match=said):
        ask(settings(timeout=0.3 if name == "late" else 5.0, retries=1))
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 307])
def test_what_no_other_try_would_change_fails_at_once(status: int, server: JudgeServer, settings: Settings) -> None:
    server.says(Reply("no", status, {"Location": f"{server.url}/elsewhere"}))
    with pytest.raises(RequestFailedError, match=f"HTTP {status}: no"):
        ask(settings())
    assert server.paths == ["/v1/chat/completions"]


def test_nobody_there(settings: Settings) -> None:
    with pytest.raises(RequestFailedError, match="ConnectError"):
        ask(settings(base_url="http://127.0.0.1:9/v1", retries=1))


def test_the_content_type_does_not_matter(server: JudgeServer, settings: Settings) -> None:
    server.says(Reply(GOOD.body, headers={"Content-Type": "text/plain; charset=latin-1"}))
    assert ask(settings()) == ANSWER


def test_no_text_is_an_answer(server: JudgeServer, settings: Settings) -> None:
    server.says(completion(None))
    assert ask(settings()) == ""
    server.says(Reply('{"choices": [{"message": {"refusal": "I cannot"}}]}'))
    assert ask(settings()) == ""


def test_back_off_doubles_and_heeds_retry_after(
    server: JudgeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(random.Random, "uniform", lambda self, low, high: low)
    busy = Reply("", 503)
    server.says(busy, busy, busy, Reply("", 429, {"Retry-After": "7"}), Reply("", 429, {"Retry-After": "9999"}), GOOD)
    assert ask(settings(backoff=1.0, retries=5)) == ANSWER
    # 1, 2, 4 seconds less a half; as asked; as asked, but no more than two minutes.
    assert waited == [0.5, 1.0, 2.0, 7.0, 120.0]


def test_the_key_is_taken_out_of_what_the_endpoint_says(
    server: JudgeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret")
    config = settings(token_env="MY_KEY")
    server.says(completion("your key is sk-secret"))
    assert ask(config) == "your key is [API key]"
    server.says(Reply("wrong key: sk-secret", 401))
    with pytest.raises(RequestFailedError, match=r"wrong key: \[API key\]"):
        ask(config)


def test_a_key_that_is_no_secret_changes_no_answer(
    server: JudgeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "0.75")
    server.says(GOOD)
    assert ask(settings()) == ANSWER


def test_a_foreign_message_is_one_short_printable_line(server: JudgeServer, settings: Settings) -> None:
    server.says(Reply("\x1b[31mred\x1b[0m\n\n  two" + "x" * 10_000, 400))
    with pytest.raises(RequestFailedError) as caught:
        ask(settings())
    said = str(caught.value)
    assert said.startswith(r"HTTP 400: \x1b[31mred\x1b[0m two")
    assert said.isprintable()
    assert len(said) < 550


def test_the_key_of_a_comparison_depends_on_all_that_is_asked(settings: Settings) -> None:
    base = settings()
    other = Comparison(ONE.prompt, ONE.second, ONE.first)
    keys = {
        EndpointJudge(base).key(ONE),
        EndpointJudge(base).key(other),
        EndpointJudge(settings(model="other")).key(ONE),
        EndpointJudge(settings(base_url=base.base_url + "/x")).key(ONE),
        EndpointJudge(settings(temperature=0.5)).key(ONE),
        EndpointJudge(settings(max_tokens=7)).key(ONE),
        EndpointJudge(settings(request={"seed": 1})).key(ONE),
    }
    assert len(keys) == 7
    patient = settings(timeout=9, retries=9, malformed_retries=9, concurrency=9)
    assert EndpointJudge(patient).key(ONE) == EndpointJudge(base).key(ONE)


def test_an_address_that_cannot_be_asked(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="base_url: expected an address"):
        EndpointJudge(settings(base_url="http://host/v1\x07"))


@pytest.mark.parametrize("text", ["a\ud800b", "\x00\x1b\u2028", "\U0001f600 é", '"}], "x": "'])
def test_any_text_arrives_as_it_is_shown(text: str, server: JudgeServer, settings: Settings) -> None:
    server.says(GOOD)
    ask(settings(), Comparison(ONE.prompt, text, "other"))
    assert judged_texts(server.requests[0]) == (text.replace("\ud800", "\ufffd"), "other")


def test_a_slow_request_is_given_up_in_time(server: JudgeServer, settings: Settings) -> None:
    server.says(Reply(" " * 1000, trickle=0.02))  # 20 s, never silent for long
    started = time.monotonic()
    with pytest.raises(RequestFailedError, match="no answer within"):
        ask(settings(timeout=0.3, retries=0))
    assert time.monotonic() - started < 10
