import json
import socket
import threading

import httpx2
import pytest
from running_server import Lengths

from geoalign.errors import ConfigError
from geoalign.lab.serve_reward.access import check_host

PROMPT = [{"role": "user", "content": "how do i fix it?"}]


def request(responses, prompts=None):
    return {"prompts": [PROMPT] * len(responses) if prompts is None else prompts, "responses": responses}


def test_scores_and_counts(serve):
    source = Lengths()
    server = serve(source)
    reply = httpx2.post(f"{server.url}/score", json=request(["abc", "too long", "", "odd"]))
    assert reply.status_code == 200
    # NaN is no JSON: null.
    assert reply.json() == {"scores": [3.0, None, 0.0, None], "unscored": {"too_long": 1, "not_finite": 1}}
    # Only what this request came to, not what came before.
    assert httpx2.post(f"{server.url}/score", json=request(["ab"])).json() == {"scores": [2.0], "unscored": {}}
    assert source.prompts[0] == PROMPT
    assert httpx2.post(f"{server.url}/score", json=request([])).json() == {"scores": [], "unscored": {}}


def test_health_and_metrics(serve):
    server = serve(Lengths(), max_batch=7, max_bytes=5000)
    health = httpx2.get(f"{server.url}/health").json()
    assert (health["status"], health["server"], health["max_batch"], health["max_bytes"]) == ("ok", "geoalign", 7, 5000)
    httpx2.post(f"{server.url}/score", json=request(["abc", "too long"]))
    httpx2.post(f"{server.url}/score", json={})
    text = httpx2.get(f"{server.url}/metrics").text
    assert 'geoalign_reward_requests_total{status="200"} 1.0' in text
    assert 'geoalign_reward_requests_total{status="422"} 1.0' in text
    assert "geoalign_reward_scored_total 1.0" in text
    assert 'geoalign_reward_unscored_total{reason="too_long"} 1.0' in text
    assert "geoalign_reward_seconds_count 1.0" in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"responses": ["a"]}, "prompts: Field required"),
        ({"prompts": [PROMPT], "responses": [3]}, "responses.0: "),
        ({"prompts": ["a"], "responses": ["a"]}, "prompts.0: "),
        ({"prompts": [[{"role": "user"}]], "responses": ["a"]}, "prompts.0.0.content: Field required"),
        ({"prompts": [[{"role": 5, "content": "a"}]], "responses": ["a"]}, "prompts.0.0.role: "),
        ({"prompts": [[{"role": "user", "content": None}]], "responses": ["a"]}, "prompts.0.0.content: "),
        ({"prompts": [PROMPT], "responses": ["a"], "model": "x"}, "model: Extra inputs"),
        ({"prompts": [PROMPT], "responses": ["a", "b"]}, "prompts: expected 2 as responses, got 1"),
        ({"prompts": [PROMPT] * 65, "responses": ["a"] * 65}, "responses: expected at most 64, got 65"),
        ([], "body: "),
        (None, "body: "),
    ],
)
def test_a_bad_request_names_the_field(serve, body, message):
    source = Lengths()
    reply = httpx2.post(f"{serve(source).url}/score", json=body)
    assert reply.status_code == 422
    assert message in reply.json()["detail"]
    assert source.calls == []


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'{"prompts": [' + b"[" * 20_000, b"nonsense"])
def test_what_is_no_json_is_refused(serve, content):
    server = serve(Lengths())
    reply = httpx2.post(f"{server.url}/score", content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code in (400, 422)
    assert httpx2.post(f"{server.url}/score", json=request(["abc"])).json()["scores"] == [3.0]


def test_a_refusal_does_not_repeat_what_came(serve):
    reply = httpx2.post(f"{serve(Lengths()).url}/score", json={"prompts": [[3] * 500], "responses": ["x" * 50_000]})
    assert reply.status_code == 422
    assert len(reply.content) < 1000
    assert "and 495 more" in reply.json()["detail"]


def test_a_request_that_is_too_large_is_refused_announced_or_not(serve):
    source = Lengths()
    server = serve(source, max_bytes=2000)
    large = json.dumps(request(["x" * 5000])).encode()
    assert httpx2.post(f"{server.url}/score", content=large).status_code == 413

    def pieces():
        for start in range(0, len(large), 500):
            yield large[start : start + 500]

    # No Content-Length: the body comes in chunks of unknown number.
    headers = {"Content-Type": "application/json"}
    assert httpx2.post(f"{server.url}/score", content=pieces(), headers=headers).status_code == 413
    assert source.calls == []


def test_the_token_is_asked_for_before_the_body_is_read(serve):
    server = serve(Lengths(), token="secret")
    url = f"{server.url}/score"
    body = request(["abc"])
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}, {"Authorization": "Bearer"}):
        reply = httpx2.post(url, json=body, headers=headers)
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
    assert httpx2.get(f"{server.url}/metrics").status_code == 401
    assert httpx2.get(f"{server.url}/health").status_code == 200
    assert httpx2.post(url, json=body, headers={"Authorization": "Bearer secret"}).json()["scores"] == [3.0]
    # A body that never comes: the answer comes all the same.
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert b"401" in raw.recv(1000).split(b"\r\n")[0]


def test_one_call_of_the_model_at_a_time_and_health_in_between(serve):
    source = Lengths(seconds=0.3)
    server = serve(source)
    found = []

    def ask(text):
        found.append(httpx2.post(f"{server.url}/score", json=request([text]), timeout=30).json()["scores"])

    threads = [threading.Thread(target=ask, args=("a" * (number + 1),)) for number in range(4)]
    for thread in threads:
        thread.start()
    # The event loop is free while the model is at work.
    assert httpx2.get(f"{server.url}/health", timeout=5).status_code == 200
    for thread in threads:
        thread.join()
    assert sorted(found) == [[1.0], [2.0], [3.0], [4.0]]
    assert source.most_inside == 1


def test_a_failure_of_the_model_is_the_server_s_fault_and_counted(serve):
    class Broken(Lengths):
        def score(self, *args, **options):
            raise RuntimeError("out of memory")

    server = serve(Broken())
    assert httpx2.post(f"{server.url}/score", json=request(["abc"])).status_code == 500
    assert 'geoalign_reward_requests_total{status="500"} 1.0' in httpx2.get(f"{server.url}/metrics").text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_token(host):
    check_host(host, token=None, allow_without_token=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", ""])
def test_other_hosts_need_a_token_or_insistence(host):
    with pytest.raises(ConfigError, match="host: expected a loopback address"):
        check_host(host, token=None, allow_without_token=False)
    check_host(host, token="secret", allow_without_token=False)
    check_host(host, token=None, allow_without_token=True)
