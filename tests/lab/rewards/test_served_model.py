"""Rewards from a server that has vLLM's formats, that is away, and that answers something else."""

import logging
import math
import re
import time

import pytest
from vllm_server import VLLMServer

from geoalign.errors import ConfigError, ServiceError
from geoalign.lab.models.language_model import make_tokenizer
from geoalign.lab.rewards.served_model import ServedRewardModel
from geoalign.lab.rewards.settings import RewardModelConfig

PROMPT = [{"role": "user", "content": "abc"}]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    made = make_tokenizer("abcdefghijklmnopqrstuvwxyz ", max_length=200)
    made.save_pretrained(folder)
    return str(folder), made


@pytest.fixture
def client(tokenizer):
    def make(url, **values):
        settings = {"tokenizer": tokenizer[0], "patience": 5.0, "timeout": 10.0, **values}
        return ServedRewardModel(RewardModelConfig(url=url, **settings))

    return make


@pytest.fixture
def server():
    running = VLLMServer()
    yield running
    running.stop()


def score(model, responses):
    return model.score(responses, [""] * len(responses), prompts=[PROMPT] * len(responses))


def lengths(tokenizer, *responses):
    dialogues = ([*PROMPT, {"role": "assistant", "content": text}] for text in responses)
    return [float(len(tokenizer[1].apply_chat_template(one, tokenize=False))) for one in dialogues]


@pytest.mark.parametrize("api", ["vllm", "vllm_pooling"])
def test_dialogues_are_sent_in_the_chat_template_and_raw_outputs_come_back(server, client, tokenizer, api):
    with client(server.url, api=api, batch_size=2) as model:
        model.check()
        assert score(model, ["a", "bb", "ccc"]) == lengths(tokenizer, "a", "bb", "ccc")
        assert score(model, []) == []
        assert math.isnan(score(model, ["b" * 600])[0])  # too long: nothing is asked
        assert model.counters == {
            "scored": 3,
            "too_long": 1,
            "empty": 0,
            "not_finite": 0,
            "unreachable": 0,
            "refused": 0,
        }
    assert [len(body["input"]) for body in server.bodies] == [2, 1]
    for body in server.bodies:
        assert (body["model"], body["add_special_tokens"], body["use_activation"]) == ("org/model", False, False)
        assert body.get("task") == ("classify" if api == "vllm_pooling" else None)


def test_numbers_that_are_none_are_not_finite(server, client):
    huge = b"1" + b"0" * 400
    probs = (b"[NaN]", b"[1e999]", b"[%s]" % huge, b"[null]", b"[2]")
    data = b", ".join(b'{"index": %d, "probs": %s}' % pair for pair in enumerate(probs))
    server.answers = [b'{"data": [%s]}' % data]
    with client(server.url) as model:
        found = score(model, ["a"] * 5)
        assert [math.isnan(value) for value in found] == [True, True, True, True, False]
        assert (model.counters["not_finite"], model.counters["scored"]) == (4, 1)


def results(*probs):
    return {"data": [{"index": index, "probs": one} for index, one in enumerate(probs)]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (results([0.4, 0.6], [0.1, 0.9]), "expected one output a response, got 2"),
        (results([1.0], [1.0]), "expected raw outputs, got 1.0 for each of 2 responses"),
        ({"data": [{"index": 0, "probs": [1.0]}, {"index": 0, "probs": [2.0]}]}, "expected the results 0 to 1"),
        (results(["1"], [2.0]), "expected vLLM's format"),
        ({"error": "x"}, "expected vLLM's format"),
        (b"<html>", "expected vLLM's format, got <html>"),
        (401, r"/classify: HTTP 401: .*no such luck.*`token_env`"),
        (403, r"/classify: HTTP 403: .*no such luck.*`token_env`"),
        (404, "/classify: HTTP 404: .*no such luck"),
        ((307, {"Location": "http://127.0.0.1:1/classify"}), "HTTP 307"),
    ],
)
def test_refusals_and_answers_that_mean_something_else_are_errors_at_once(server, client, answer, message):
    server.answers = [answer]
    with client(server.url) as model, pytest.raises(ServiceError, match=message):
        score(model, ["a", "b"])
    assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_text_that_the_server_refuses_is_unscored_and_the_others_go_on(server, client, tokenizer, caplog, status):
    server.refused = {"bad": status}
    with client(server.url, batch_size=3) as model, caplog.at_level(logging.WARNING):
        found = score(model, ["a", "bad", "cc", "bade", "ddddd"])
        score(model, ["bad"])
        # One request of all three that stand next to each other by length, then each of them alone.
        assert [len(body["input"]) for body in server.bodies] == [3, 1, 1, 1, 2, 1, 1, 1]
        assert [math.isnan(value) for value in found] == [False, True, False, True, False]
        assert [found[row] for row in (0, 2, 4)] == lengths(tokenizer, "a", "cc", "ddddd")
        assert (model.counters["scored"], model.counters["refused"], model.counters["unreachable"]) == (3, 3, 0)
    (warning,) = caplog.records
    words = f"/classify: HTTP {status}: .*no such luck.*; the response stays unscored"
    assert re.search(words, warning.getMessage())


def test_a_batch_that_is_too_large_is_asked_one_by_one(server, client, tokenizer):
    server.answers = [413]
    with client(server.url) as model:
        assert score(model, ["a", "bb"]) == lengths(tokenizer, "a", "bb")
        assert model.counters["refused"] == 0


def test_a_server_that_goes_away_among_single_texts_loses_no_score(server, client):
    server.answers = [422, results([5.0]), *[500] * 100]
    with client(server.url, patience=0.5) as model:
        found = score(model, ["a", "bb", "ccc"])
        assert found[0] == 5.0
        assert all(map(math.isnan, found[1:]))
        assert (model.counters["scored"], model.counters["refused"], model.counters["unreachable"]) == (1, 0, 2)


def test_the_server_and_the_tokenizer_are_looked_for_at_the_start(server, client, tmp_path):
    missing = pytest.raises(ConfigError, match=r"reward\.model\.tokenizer: expected a tokenizer")
    with client(server.url, tokenizer=str(tmp_path / "none")) as model, missing:
        model.check()
    server.stop()
    with client(server.url, patience=60.0) as model:
        start = time.monotonic()
        with pytest.raises(ConfigError, match=r"reward\.model\.url: .* http.*/v1/models: Conn"):
            model.check()
        assert time.monotonic() - start < 10  # asked once
    server.start()


def test_a_server_that_stays_away_leaves_the_rest_unscored_in_bounded_time(server, client, tokenizer):
    with client(server.url, batch_size=2, patience=1.0) as model:
        assert score(model, ["a"]) == lengths(tokenizer, "a")
        server.answers = [results([5.0], [6.0]), *[500] * 100]
        start = time.monotonic()
        found = score(model, ["a"] * 10)
        assert time.monotonic() - start < 5  # all attempts together, not of each request
        assert found[:2] == [5.0, 6.0]
        assert all(map(math.isnan, found[2:]))
        assert model.counters == {
            "scored": 3,
            "too_long": 0,
            "empty": 0,
            "not_finite": 0,
            "unreachable": 8,
            "refused": 0,
        }
        server.answers = []
        assert score(model, ["a"]) == lengths(tokenizer, "a")


def test_the_token_is_sent_and_a_wrong_one_is_an_error_at_once(client, tokenizer, monkeypatch):
    server = VLLMServer(token="secret-token")
    monkeypatch.setenv("REWARD_TOKEN", "secret-token")
    with client(server.url, token_env="REWARD_TOKEN") as model:
        assert score(model, ["a"]) == lengths(tokenizer, "a")
    with client(server.url) as model, pytest.raises(ServiceError, match="token_env"):
        score(model, ["a"])
    monkeypatch.delenv("REWARD_TOKEN")
    with pytest.raises(ConfigError, match=r"token_env: \$REWARD_TOKEN holds no API key"):
        client(server.url, token_env="REWARD_TOKEN")
    server.stop()
