"""A second verifier behind an endpoint: what it is asked, and which of its answers are verdicts."""

import os
import sys
import time

import pytest
from judge_server import Reply, completion

from geoalign.answers.verifiers import UnfinishedError, second_verifier
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


def test_an_endpoint_is_asked_no_longer_than_the_time_limit(server):
    """One answer is late: the others count."""
    late = '{"correct": true}'

    def reply(request):
        number = int(request["messages"][1]["content"].partition("prompt, user:\n")[2][0])
        return Reply(completion(late).body, delay=20.0 if number == 3 else 0.0)

    server.reply = reply
    started = time.monotonic()
    with pytest.raises(UnfinishedError, match=r"--second-verifier: no answer about all of 6 rows in 3\.0 s") as raised:
        judge(server, timeout=60.0)(ROWS, 3.0)
    assert time.monotonic() - started < 15
    assert raised.value.verdicts == [True, True, True, None, True, True]


def test_a_command_is_killed_with_all_that_it_has_started(tmp_path):
    script = tmp_path / "judge.py"
    script.write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        "child.wait()\n"
    )
    by_command = second_verifier(f"{sys.executable} {script}", {}, key="it", section="")
    with pytest.raises(UnfinishedError, match=r"it: expected a verdict in JSON on each of 6 rows, .* after 3 s"):
        by_command(ROWS, 3.0)
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not runs(child):
            return
        time.sleep(0.1)
    pytest.fail("the child of the command runs on")


def runs(process):
    """Whether a process is there, and no zombie that nobody has waited for."""
    try:
        os.kill(process, 0)
        with open(f"/proc/{process}/stat", encoding="utf-8") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
