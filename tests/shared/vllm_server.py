"""A server on loopback that has vLLM's formats for a reward model; vLLM itself is not run."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from loopback_server import LoopbackServer

# Instead of what is right: a status, a status with headers, the body as bytes, or as what JSON writes.
Answer = int | tuple[int, dict[str, str]] | bytes | Any


class VLLMServer:
    """A served classifier with one label, whose raw output is by default the length of the text.

    Attributes:
        models: what /v1/models says.
        answers: taken one after another by requests for scores, before those that are right.
        bodies: of all requests for scores.
        refused: text -> the status with which a request that holds it is refused.
    """

    def __init__(self, score: Callable[[str], float] = len, *, longest: int | None = 60, token: str = "") -> None:
        card = {"id": "org/model", "object": "model", "owned_by": "vllm", "max_model_len": longest}
        self.models: Any = {"object": "list", "data": [card]}
        self.answers: list[Answer] = []
        self.bodies: list[dict[str, Any]] = []
        self.score, self.token = score, token
        self.refused: dict[str, int] = {}
        self.start(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, port: int | None = None) -> None:
        """Listens, after `stop` at the same port."""
        self._server = LoopbackServer(self.port if port is None else port, _handler(self))
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply(self, path: str, body: dict[str, Any]) -> Answer:
        self.bodies.append(body)
        if self.answers:
            return self.answers.pop(0)
        for text, status in self.refused.items():
            if any(text in one for one in body["input"]):
                return status
        name = {"/classify": "probs", "/pooling": "data"}.get(path)
        if name is None:
            return 404
        data = [{"index": index, name: [float(self.score(text))]} for index, text in enumerate(body["input"])]
        return {"object": "list", "model": "org/model", "data": data[::-1]}  # `index` says what belongs where


def _handler(server: VLLMServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(server.models if self.path == "/v1/models" else 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            refused = server.token and self.headers.get("Authorization") != f"Bearer {server.token}"
            self._send(401 if refused else server.reply(self.path, body))

        def _send(self, answer: Answer) -> None:
            status, headers = answer if isinstance(answer, tuple) else (answer, {})
            if not isinstance(answer, int | tuple):
                status = 200
            content = b'{"error": {"message": "no such luck"}}'
            if status == 200:
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
