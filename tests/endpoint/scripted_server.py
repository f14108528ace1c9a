"""A server on loopback that sends whatever bytes a script says, at whatever pace, and breaks off where it says."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator

# What a script yields: bytes to send, seconds to wait, or one of these.
RESET, UNREAD = "reset", "unread"
Step = bytes | float | str
Script = Callable[[bytes], Iterable[Step]]  # made of the request's path


def http(
    body: bytes, status: str = "200 OK", *headers: str, length: int | None = None, kind: str = "application/json"
) -> bytes:
    """A whole response, after which the connection closes; unsaid, a client's next request may be lost with it."""
    said = len(body) if length is None else length
    lines = [
        f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {said}", "Connection: close", *headers, "",
        "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode("latin-1") + body


def paced(data: bytes, seconds: float) -> Iterator[Step]:
    """A byte at a time."""
    for byte in data:
        yield bytes([byte])
        yield seconds


class ScriptedServer:
    """Follows `script` on each connection, for at most 10 s; counts connections and requests."""

    def __init__(self) -> None:
        self.script: Script = lambda path: []
        self.requests: list[bytes] = []
        self.heads: list[bytes] = []
        self._open: set[socket.socket] = set()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connection.settimeout(10)
                self._open.add(connection)
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        end = time.monotonic() + 10
        with contextlib.suppress(OSError), connection:
            path = b""
            steps = iter(self.script(b"?"))
            first = next(steps, None)
            if first != UNREAD:
                path = self._request(connection)
                steps = iter(self.script(path))
            for step in steps:
                if time.monotonic() > end:
                    break
                if step == RESET:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                if isinstance(step, bytes):
                    connection.sendall(step)
                elif isinstance(step, float):
                    time.sleep(step)
        self._open.discard(connection)

    def _request(self, connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            part = connection.recv(65536)
            if not part:
                raise OSError
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                while len(body) < int(value):
                    body += connection.recv(65536)
        path = head.split()[1]
        self.heads.append(head)
        self.requests.append(path)
        return path
