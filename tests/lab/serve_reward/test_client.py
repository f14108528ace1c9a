import math
import threading
import time
from itertools import pairwise

import pytest
from fastapi import FastAPI, Request, Response
from running_server import Lengths

from geoalign.errors import ConfigError, InputError, ServiceError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.rewards.served_model import ServedRewardModel

PROMPT = [{"role": "user", "content": "how do i fix it?"}]
HEALTH = {"status": "ok", "server": "geoalign", "version": "1", "max_batch": 8, "max_bytes": 100_000}


def client(url, **values):
    return ServedRewardModel(RewardModelConfig(url=url, **{"patience": 30.0, "timeout": 10.0, **values}))


def score(model, responses):
    return model.score(responses, [""] * len(responses), prompts=[PROMPT] * len(responses))


def answering(answers):
    """An application whose /score gives these one after another: a status, (status, headers), or a body."""
    app, asked = FastAPI(), []

    @app.get("/health")
    async def health():
        return HEALTH

    @app.post("/score")
    async def score(request: Request):
        asked.append((time.monotonic(), await request.json(), dict(request.headers)))
        answer = answers.pop(0) if answers else {"scores": [1.0] * len(asked[-1][1]["responses"]), "unscored": {}}
        if isinstance(answer, int):
            return Response("no", status_code=answer)
        if isinstance(answer, tuple):
            return Response("no", status_code=answer[0], headers=answer[1])
        return Response(answer, media_type="application/json") if isinstance(answer, bytes) else answer

    app.state.asked = asked
    return app


def test_scores_come_back_in_order_and_reasons_are_counted(serve):
    source = Lengths()
    with client(serve(source, max_batch=3).url, batch_size=64) as model:
        responses = ["a" * number for number in range(7)] + ["too long", "odd"]
        found = score(model, responses)
        assert found[:7] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        assert all(map(math.isnan, found[7:]))
        assert model.counters == {"scored": 7, "too_long": 1, "empty": 0, "not_finite": 1, "unreachable": 0}
        # No request is larger than the server allows.
        assert [len(call) for call in source.calls] == [3, 3, 3]
        assert source.prompts[0] == PROMPT
        assert model.binary is False
        assert score(model, []) == []


def test_requests_stay_within_the_server_s_bytes(serve):
    source = Lengths()
    with client(serve(source, max_bytes=2000).url) as model:
        responses = ["é" * 100, "b" * 500, "c" * 600, "d" * 3000, "e"]
        found = score(model, responses)
    # One that fits into no request is too long; nothing else is lost to it.
    assert found[:3] == [100.0, 500.0, 600.0]
    assert math.isnan(found[3])
    assert found[4] == 1.0
    assert model.counters["too_long"] == 1


@pytest.mark.parametrize("passing", [429, 500, 503, 408, (503, {"Retry-After": "1"})])
def test_passing_failures_are_tried_again(serve, passing):
    app = answering([passing, passing])
    with client(serve(app=app).url) as model:
        assert score(model, ["a", "b"]) == [1.0, 1.0]
    times = [asked[0] for asked in app.state.asked]
    assert len(times) == 3
    if isinstance(passing, tuple):
        assert all(later - earlier >= 0.99 for earlier, later in pairwise(times))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (401, r"/score: expected success, got HTTP 401 \(set reward\.model\.token_env\?\): no"),
        (404, "got HTTP 404: no"),
        (422, "got HTTP 422: no"),
        ((307, {"Location": "http://127.0.0.1:1/score"}), "got HTTP 307"),
        (b"<html>", "expected JSON, got '<html>'"),
        (b"[" * 100_000, "expected JSON"),
        ({"scores": [1.0]}, "expected 2 scores"),
        ({"scores": [1.0, 2.0, 3.0]}, "expected 2 scores"),
        ({"scores": "ab"}, "expected 2 scores"),
        ([1.0, 2.0], "expected 2 scores"),
        ({"scores": [1.0, "2"]}, "expected a number or null as a score, got '2'"),
        ({"scores": [1.0, True]}, "expected a number or null"),
    ],
)
def test_refusals_and_broken_answers_are_errors_at_once(serve, answer, message):
    app = answering([answer])
    with client(serve(app=app).url) as model, pytest.raises(ServiceError, match=message):
        score(model, ["a", "b"])
    assert len(app.state.asked) == 1


def test_numbers_that_are_none_are_not_finite(serve):
    answer = b'{"scores": [NaN, 1e999, 1' + b"0" * 400 + b', null, 2], "unscored": {"too_long": 9, "empty": -3}}'
    with client(serve(app=answering([answer])).url) as model:
        found = score(model, ["a"] * 5)
        assert [math.isnan(value) for value in found] == [True, True, True, True, False]
        # However many the server says: no more than there are.
        assert model.counters == {"scored": 1, "too_long": 4, "empty": 0, "not_finite": 0, "unreachable": 0}


def test_a_server_that_restarts_in_the_middle_costs_nothing(serve):
    source = Lengths(seconds=0.05)
    server = serve(source)
    restarted = threading.Event()

    def restart():
        while len(source.calls) < 5:
            time.sleep(0.005)
        server.stop()
        time.sleep(0.5)
        server.start()
        restarted.set()

    thread = threading.Thread(target=restart)
    with client(server.url, batch_size=2) as model:
        thread.start()
        found = score(model, ["a" * number for number in range(40)])
        thread.join()
    assert restarted.is_set()
    assert found == [float(number) for number in range(40)]
    assert model.counters["unreachable"] == 0


def test_a_server_that_stays_away_leaves_the_rest_unscored_in_bounded_time(serve):
    source = Lengths()
    server = serve(source)
    with client(server.url, batch_size=2, patience=1.0) as model:
        assert score(model, ["a", "ab"]) == [1.0, 2.0]
        server.stop()
        start = time.monotonic()
        found = score(model, ["abc"] * 10)
        # All attempts together, not of each request.
        assert time.monotonic() - start < 5
        assert all(map(math.isnan, found))
        assert model.counters == {"scored": 2, "too_long": 0, "empty": 0, "not_finite": 0, "unreachable": 10}
        server.start()
        assert score(model, ["abcd"]) == [4.0]


def test_what_was_scored_before_the_server_went_is_kept(serve):
    app = answering([{"scores": [5.0, 6.0], "unscored": {}}] + [500] * 100)
    with client(serve(app=app).url, batch_size=2, patience=0.5) as model:
        found = score(model, ["a"] * 6)
        assert found[:2] == [5.0, 6.0]
        assert all(map(math.isnan, found[2:]))
        assert (model.counters["scored"], model.counters["unreachable"]) == (2, 4)


def test_an_answer_that_comes_too_late_is_asked_for_again(serve):
    source = Lengths(seconds=1.0)
    with client(serve(source).url, timeout=0.3, patience=1.5) as model:
        found = score(model, ["abc"])
        source.seconds = 0.0
        assert math.isnan(found[0])
        assert model.counters["unreachable"] == 1
    with client(serve(source).url, timeout=5) as model:
        assert score(model, ["abc"]) == [3.0]


def test_the_token_is_sent_and_a_wrong_one_is_an_error_at_once(serve, monkeypatch):
    server = serve(Lengths(), token="secret")
    monkeypatch.setenv("REWARD_TOKEN", "secret")
    with client(server.url, token_env="REWARD_TOKEN") as model:
        assert score(model, ["abc"]) == [3.0]
    monkeypatch.setenv("REWARD_TOKEN", "wrong")
    with client(server.url, token_env="REWARD_TOKEN") as model, pytest.raises(ServiceError, match="Authorization"):
        score(model, ["abc"])
    with client(server.url) as model, pytest.raises(ServiceError, match="token_env"):
        score(model, ["abc"])
    monkeypatch.delenv("REWARD_TOKEN")
    with pytest.raises(ConfigError, match=r"token_env: expected a token .* in \$REWARD_TOKEN"):
        client(server.url, token_env="REWARD_TOKEN")


def test_the_server_is_looked_for_at_the_start(serve):
    server = serve(Lengths())
    with client(server.url) as model:
        model.check()
    server.stop()
    with client(server.url) as model:
        start = time.monotonic()
        with pytest.raises(ConfigError, match=r"reward\.model\.url: expected a server at http.* got none: Conn"):
            model.check()
        assert time.monotonic() - start < 10  # asked once
    other = FastAPI()
    with (
        client(serve(app=other).url) as model,
        pytest.raises(ConfigError, match=r"reward\.model\.url: .*/health: expected success, got HTTP 404"),
    ):
        model.check()

    @other.get("/health")
    async def health() -> dict[str, str]:
        return {}

    with client(serve(app=other).url) as model, pytest.raises(ConfigError, match="expected a geoalign reward server"):
        model.check()


@pytest.mark.parametrize("response", ["\ud800", "\x00", "\u2028", "<|end|>", '"}],', "\U0001f600" * 50])
def test_hostile_text_arrives(serve, response):
    with client(serve(Lengths()).url) as model:
        assert score(model, [response]) == [float(len(response))]


def test_bad_input_is_refused_by_name(serve):
    with client(serve(Lengths()).url) as model:
        with pytest.raises(InputError, match="prompts: expected the chat messages"):
            model.score(["a"], [""])
        with pytest.raises(InputError, match="responses: expected str, got int in row 0"):
            score(model, [3])


def test_pauses_move_no_draw_of_a_training(serve):
    import random

    random.seed(0)
    expected = random.Random(0).random()
    with client(serve(app=answering([500])).url) as model:
        score(model, ["a"])
    assert random.random() == expected
