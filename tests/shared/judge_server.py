"""A judge's endpoint on loopback, and rows to judge."""

import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from loopback_server import LoopbackServer

from geoalign.dumps.response_files import SavedResponse


@dataclass(frozen=True)
class Reply:
    """What the server does with one request, after `delay` seconds."""

    body: bytes | str = b""
    status: int = 200
    delay: float = 0.0


def completion(text):
    message = {"role": "assistant", "content": text}
    return Reply(json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": message}]}))


def verdict(winner, first, second):
    return completion(json.dumps({"overall_winner": winner, "model_a_score": first, "model_b_score": second}))


def judged_texts(request):
    content = request["messages"][1]["content"]
    mark = content.partition("the mark ")[2].partition(",")[0]
    _, first, second = content.split(f"\n\n[{mark}] response of ")
    return (first.removeprefix("model_a:\n"), second.removeprefix("model_b:\n").removesuffix(f"\n\n[{mark}] end"))


def longer_wins(request):
    """A judge without position bias: the longer response wins."""
    first, second = judged_texts(request)
    if len(first) == len(second):
        return verdict("tie", 0.5, 0.5)
    return verdict("model_a", 0.75, 0.25) if len(first) > len(second) else verdict("model_b", 0.25, 0.75)


class JudgeServer:
    """A server on loopback that answers by `reply(request)`, and remembers requests and headers."""

    def __init__(self):
        self.reply = longer_wins
        self.requests = []
        self.headers = []
        self.paths = []
        self._lock = threading.Lock()
        self._server = LoopbackServer(0, type("Bound", (Handler,), {"judge": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, handler):
        with self._lock:
            self.requests.append(json.loads(handler.rfile.read(int(handler.headers["Content-Length"]))))
            self.headers.append(handler.headers)
            self.paths.append(handler.path)
            return self.reply(self.requests[-1])

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        reply = self.judge.answer(self)
        time.sleep(reply.delay)
        body = reply.body.encode() if isinstance(reply.body, str) else reply.body
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def row(response, *, name="helpful", number=0, sample=0, prompt=None):
    asked = f"Question {number}?" if prompt is None else prompt
    return SavedResponse(name, str(number), sample, ({"role": "user", "content": asked},), response, False)


def judge_on_loopback(monkeypatch):
    """The body of a fixture: unsets proxies and key of the environment, yields a judge's server, and closes it."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    running = JudgeServer()
    yield running
    running.close()
