"""Both clients against servers that send anything: each request ends in time, in a typed error or in counted rows."""

import asyncio
import json
import math
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import _peak
from hostile_replies import AGAIN, BROKEN, FINE, LATE, REFUSED, REPLIES, steps
from scripted_server import ScriptedServer, Step, http, paced

from geoalign.errors import ConfigError, ServiceError
from geoalign.lab.config.judge import JudgeConfig
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.judge.asking import RequestFailedError
from geoalign.lab.judge.client import EndpointJudge
from geoalign.lab.judge.prompt import Comparison
from geoalign.lab.rewards.served_model import ServedRewardModel

HEALTH = b'{"status": "ok", "server": "geoalign", "version": "1", "max_batch": 8, "max_bytes": 100000}'
SCORES = b'{"scores": [1.5, -2.0], "unscored": {}}'
PROMPT = [{"role": "user", "content": "how do i fix it?"}]
ONE = Comparison(({"role": "user", "content": "Hello"},), "left", "right")
COMPLETION = json.dumps({"choices": [{"message": {"content": "well"}}]}).encode()
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
MEGABYTES = 100


def limit(kind: str) -> float:
    """Seconds for one attempt: enough for a busy machine, but where waiting is the point."""
    return 0.25 if kind == LATE else 10.0


class Measured:
    """Seconds and megabytes of a block; no thread may outlast it."""

    def __enter__(self) -> "Measured":
        self._before = _peak(reset=True)
        self._start = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._start
        self.megabytes = _peak() - self._before
        self.threads = [one for one in threading.enumerate() if one.name == "reward-client"]


def after_health(name: str, elsewhere: ScriptedServer) -> Callable[[bytes], object]:
    return lambda path: [http(HEALTH)] if path == b"/health" else steps(name, SCORES, f"{elsewhere.url}/score")


def score(url: str, kind: str) -> tuple[list[float], dict[str, int]]:
    config = RewardModelConfig(url=url, timeout=limit(kind), patience=0.05)
    with ServedRewardModel(config) as model:
        return model.score(["a", "b"], ["", ""], prompts=[PROMPT] * 2), model.counters


def ask(url: str, kind: str) -> str:
    config = JudgeConfig(base_url=url, model="m", timeout=limit(kind), retries=1, backoff=0.001, patience=2.0)

    async def once() -> str:
        async with EndpointJudge(config) as judge:
            return await judge.ask(ONE)

    return asyncio.run(once())


@pytest.mark.parametrize("name", REPLIES)
def test_the_reward_client(name: str, scripted: ScriptedServer, elsewhere: ScriptedServer) -> None:
    kind = REPLIES[name][1]
    scripted.script = after_health(name, elsewhere)
    rewards, counters, said = [], {}, ""
    with Measured() as measured:
        try:
            rewards, counters = score(scripted.url, kind)
        except ServiceError as error:
            said = str(error)
    assert measured.seconds < 8
    assert measured.megabytes < MEGABYTES
    assert measured.threads == []
    assert elsewhere.requests == []
    assert not CONTROL.search(said)
    assert len(said) < 1000
    if kind == FINE:
        assert rewards == [1.5, -2.0]
    elif kind in (BROKEN, REFUSED):
        assert f"{scripted.url}/score: expected" in said or f"{scripted.url}/score: an answer" in said
        assert scripted.requests.count(b"/score") == 1
    else:
        assert said == ""
        assert all(map(math.isnan, rewards))
        assert counters["unreachable"] == 2


@pytest.mark.parametrize("name", REPLIES)
def test_the_judge(name: str, scripted: ScriptedServer, elsewhere: ScriptedServer) -> None:
    kind = REPLIES[name][1]
    scripted.script = lambda path: steps(name, COMPLETION, f"{elsewhere.url}/score")
    text, said = "", ""
    with Measured() as measured:
        try:
            text = ask(scripted.url, kind)
        except RequestFailedError as error:
            said = str(error)
    assert measured.seconds < 8
    assert measured.megabytes < MEGABYTES
    assert elsewhere.requests == []
    assert not CONTROL.search(said)
    assert len(said) < 1000
    assert not said.endswith(":")
    assert (text, said == "") == (("well", True) if kind == FINE else ("", False))
    if kind == REFUSED:
        assert len(scripted.requests) == 1
    assert kind != AGAIN or "within" not in said


SCORED = {
    b'{"scores": [NaN, 1]}': 1,
    b'{"scores": [Infinity, -Infinity]}': 2,
    b'{"scores": [1e999, -1e999]}': 2,
    b'{"scores": [null, null]}': 2,
    b'{"scores": [1' + b"0" * 400 + b", 1]}": 1,
    b'{"scores": [null, 1], "unscored": {"too_long": true}}': 1,
    b'{"scores": [null, 1], "unscored": {"too_long": -1, "empty": 1e9}}': 1,
    b'{"scores": [null, 1], "unscored": [[]]}': 1,
}


@pytest.mark.parametrize("body", SCORED)
def test_scores_that_are_none_are_counted(body: bytes, scripted: ScriptedServer) -> None:
    scripted.script = lambda path: [http(HEALTH if path == b"/health" else body)]
    rewards, counters = score(scripted.url, FINE)
    assert sum(map(math.isnan, rewards)) == counters["not_finite"] == SCORED[body]


@pytest.mark.parametrize(
    "scores",
    [
        "true, 1",
        "false, 1",
        '"1", 1',
        "[1], 1",
        "{}, 1",
        "",
        "1",
        "1, 2, 3",
        '"NaN", 1',
        '"\\u001b[2J", 1',
        "[[[[[]]]]], 1",
    ],
)
def test_what_is_no_score_is_an_error(scores: str, scripted: ScriptedServer) -> None:
    body = f'{{"scores": [{scores}]}}'.encode()
    scripted.script = lambda path: [http(HEALTH if path == b"/health" else body)]
    with pytest.raises(ServiceError, match="/score: expected") as caught:
        score(scripted.url, FINE)
    assert not CONTROL.search(str(caught.value))


@pytest.mark.parametrize(
    "body",
    [
        b'{"scores": [1, 2], "scores": [3, 4]}',
        b'{"scores": {"0": 1, "1": 2}}',
        b'{"scores": "12"}',
        b'{"scores": null}',
        b'{"scores": [1, 2]',
        b"null",
        b"true",
        b'"scores"',
    ],
)
def test_what_is_no_answer_is_an_error(body: bytes, scripted: ScriptedServer) -> None:
    scripted.script = lambda path: [http(HEALTH if path == b"/health" else body)]
    with pytest.raises(ServiceError, match="/score: expected"):
        score(scripted.url, FINE)


@pytest.mark.parametrize(
    "health",
    [
        b"{}",
        b"[]",
        b'{"server": "geoalign"}',
        b'{"server": "geoalign", "max_batch": true, "max_bytes": true}',
        b'{"server": "geoalign", "max_batch": 0, "max_bytes": 5}',
        b'{"server": "geoalign", "max_batch": 1e3, "max_bytes": "5"}',
        b'{"server": "geoalign", "server": "geoalign", "max_batch": 8, "max_bytes": 5}',
        b"[" * 900 + b"]" * 900,
    ],
)
def test_a_server_that_introduces_itself_wrongly_is_an_error(health: bytes, scripted: ScriptedServer) -> None:
    scripted.script = lambda path: [http(health)]
    with pytest.raises(ServiceError, match="/health: expected"):
        score(scripted.url, FINE)


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"[]",
        b'"choices"',
        b'{"choices": {"0": 1}}',
        b'{"choices": [[]]}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b'{"choices": [{"message": {"content": "a", "content": "b"}}]}',
        b'{"choices": [{"message": {"content": NaN}}]}',
        b'{"choices": [{"message": []}]}',
    ],
)
def test_what_is_no_completion_fails(body: bytes, scripted: ScriptedServer) -> None:
    scripted.script = lambda path: [http(body), 0.01]  # the second request must not come on this connection
    with pytest.raises(RequestFailedError, match="expected a chat completion"):
        ask(scripted.url, FINE)
    assert len(scripted.requests) == 2


def trickling(path: bytes) -> list[Step]:
    return [http(HEALTH)] if path == b"/health" else [b"HTTP/1.1 200 OK\r\n\r\n", *paced(b" " * 80, 0.5)]


def test_a_byte_every_half_second_holds_no_client_beyond_its_patience(scripted: ScriptedServer) -> None:
    scripted.script = trickling
    config = RewardModelConfig(url=scripted.url, timeout=1.0, patience=2.0)
    start = time.monotonic()
    with ServedRewardModel(config) as model:
        assert all(map(math.isnan, model.score(["a", "b"], ["", ""], prompts=[PROMPT] * 2)))
    assert time.monotonic() - start < 4


def test_a_judge_s_patience_ends_its_tries(scripted: ScriptedServer) -> None:
    scripted.script = trickling
    config = JudgeConfig(base_url=scripted.url, model="m", timeout=0.5, retries=1000, backoff=0.01, patience=1.5)

    async def once() -> None:
        async with EndpointJudge(config) as judge:
            await judge.ask(ONE)

    start = time.monotonic()
    with pytest.raises(RequestFailedError, match="no answer within"):
        asyncio.run(once())
    assert 1.0 < time.monotonic() - start < 4


def test_a_cancelled_question_leaves_no_connection(scripted: ScriptedServer) -> None:
    scripted.script = lambda path: [5.0]
    config = JudgeConfig(base_url=scripted.url, model="m")

    async def cancelled() -> int:
        async with EndpointJudge(config) as judge:
            tasks = [asyncio.create_task(judge.ask(ONE)) for _ in range(4)]
            while len(scripted.requests) < 4:
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            assert all(
                isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*tasks, return_exceptions=True)
            )
            return len(asyncio.all_tasks())

    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    assert asyncio.run(cancelled()) == 1
    if before:
        # The server's own ends close a moment later.
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 4


def test_ctrl_c_ends_a_waiting_client_at_once(scripted: ScriptedServer) -> None:
    scripted.script = lambda path: [9.0]

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGALRM, interrupt)
    start = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt), ServedRewardModel(RewardModelConfig(url=scripted.url)) as model:
            model.score(["a"], [""], prompts=[PROMPT])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
    assert time.monotonic() - start < 5
    assert not [one for one in threading.enumerate() if one.name == "reward-client"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://[::1", "http://host\x7f", "http://:80x"])
def test_an_address_that_cannot_be_asked(url: str) -> None:
    with pytest.raises(ConfigError, match=r"reward\.model\.url: expected an address|url: "):
        ServedRewardModel(RewardModelConfig(url=url))


@pytest.mark.parametrize(
    "url", ["http://x..y", "http://no.such.host.invalid", "http://" + "a" * 300, "https://127.0.0.1:9"]
)
def test_a_host_that_nobody_knows_is_unreachable(url: str) -> None:
    with ServedRewardModel(RewardModelConfig(url=url, timeout=2.0, patience=0.1)) as model:
        assert all(map(math.isnan, model.score(["a"], [""], prompts=[PROMPT])))
        assert model.counters["unreachable"] == 1
        with pytest.raises(ConfigError, match=r"reward\.model\.url: expected a server"):
            model.check()


def test_a_proxy_is_not_asked_for_this_machine(
    scripted: ScriptedServer, elsewhere: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", elsewhere.url)
    monkeypatch.setenv("http_proxy", elsewhere.url)
    scripted.script = lambda path: [http(COMPLETION)]
    assert ask(scripted.url, FINE) == "well"
    assert elsewhere.requests == []
