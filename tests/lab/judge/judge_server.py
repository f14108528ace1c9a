"""A judge's endpoint on loopback, and rows to judge."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from geoalign.lab.evaluation.responses import SavedResponse


@dataclass(frozen=True)
class Reply:
    """What the server does with one request."""

    body: bytes | str = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before the answer


def completion(text):
    """A chat completion of this text."""
    message = {"role": "assistant", "content": text}
    return Reply(json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": message}]}))


def verdict(winner, first, second):
    """A chat completion that is a verdict."""
    return completion(json.dumps({"overall_winner": winner, "model_a_score": first, "model_b_score": second}))


def judged_texts(request):
    """The two responses as a judge that heeds the marks reads them out of a request."""
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
        self.reply: Callable[[dict[str, Any]], Reply] = longer_wins
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that went away
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def says(self, *replies):
        """Gives these replies one after another, the last one again and again."""
        left = list(replies)
        self.reply = lambda request: left.pop(0) if len(left) > 1 else left[0]

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._lock:
                    server.requests.append(request)
                    server.headers.append(dict(self.headers))
                    server.paths.append(self.path)
                    server.at_once += 1
                    server.most_at_once = max(server.most_at_once, server.at_once)
                    reply = server.reply(request)
                try:
                    time.sleep(reply.delay)
                finally:
                    with server._lock:
                        server.at_once -= 1
                self._send(reply)

            def _send(self, reply):
                body = reply.body.encode() if isinstance(reply.body, str) else reply.body
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler


def row(response, *, name="helpful", number=0, sample=0, prompt=None):
    asked = f"Question {number}?" if prompt is None else prompt
    return SavedResponse(name, str(number), sample, ({"role": "user", "content": asked},), response, False)
