"""A second verifier behind an endpoint: what it is asked, and which of its answers are verdicts."""

import pytest
from judge_server import Reply, completion

from geoalign.answers.verifiers import second_verifier
from geoalign.errors import ServiceError

ROWS = [{"prompt": f"{n} + 1?", "response": f"\\boxed{{{n}}}", "answer": str(n + 1)} for n in range(6)]


def judge(server, **settings):
    endpoint = {"model": "m", "timeout": 5.0, "patience": 0.5, **settings}
    return second_verifier(server.url, endpoint, key="--second-verifier", section="endpoint")


def test_each_row_is_asked_about_with_its_reference_and_has_its_own_verdict(server):
    answers = {0: '{"correct": true}', 1: '```json\n{"correct": false}\n```', 2: "I think so", 3: '{"correct": null}',
               4: '{"reward": 0.5}'}  # fmt: skip

    def reply(request):
        number = int(request["messages"][1]["content"].partition("prompt, user:\n")[2][0])
        return completion(answers[number]) if number in answers else Reply("too long", status=413)

    server.reply = reply
    assert judge(server, max_tokens=64)(ROWS) == [True, False, None, None, 0.5, None]
    texts = [request["messages"][1]["content"] for request in server.requests]
    assert all(name in text for text in texts for name in ("prompt, user:", "response:", "reference answer:"))
    assert {request["max_tokens"] for request in server.requests} == {64}


@pytest.mark.parametrize("reply", [Reply("no", status=401), Reply("busy", status=503)])
def test_a_server_that_refuses_or_is_away_is_one_error(server, reply):
    server.reply = lambda request: reply
    with pytest.raises(ServiceError, match=r"--second-verifier: http://.*: HTTP \d+"):
        judge(server)(ROWS)
