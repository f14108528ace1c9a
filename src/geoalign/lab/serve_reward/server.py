"""The web server around the application: its sockets, and limits that no silent client can use up."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from geoalign.errors import ConfigError
from geoalign.lab.serve_reward.connections import BoundedProtocol

# Connections taken in one turn of the event loop, before the first of them can make room.
_BACKLOG = 256


def server_settings(app: Any, **more: Any) -> uvicorn.Config:
    """uvicorn's settings for the reward server: logs nothing that a client sends."""
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        **more,
    )


@contextlib.contextmanager
def bound_sockets(host: str, port: int) -> Iterator[list[socket.socket]]:
    """The port, bound at every address of `host`; nobody can connect before `serve`.

    Raises:
        ConfigError: the port is out of range, in use or not allowed, or the host is none of this machine's.
    """
    if not 1 <= port <= 65535:
        raise ConfigError(f"port: expected 1 to 65535, got {port}")
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"host: expected an address of this machine, got {host!r}: {error}") from error
    problem: OSError | None = None
    with contextlib.ExitStack() as opened:
        sockets = []
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            try:
                listener = opened.enter_context(socket.socket(family, kind, protocol))
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(address)
            except OSError as error:
                # Names such as localhost also mean IPv6, which a machine may be without.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise ConfigError(_bind_problem(host, port, error)) from error
                problem = error
            else:
                sockets.append(listener)
        if not sockets:
            raise ConfigError(f"host: expected an address of this machine, got {host!r}: {problem}")
        yield sockets


def serve(app: Any, sockets: list[socket.socket]) -> None:
    """Serves the application at these sockets until the process is asked to stop.

    Raises:
        ConfigError: another server began to listen there in the meantime.
    """
    for listener in sockets:
        try:
            listener.listen(_BACKLOG)
        except OSError as error:
            host, port = listener.getsockname()[:2]
            raise ConfigError(_bind_problem(host, port, error)) from error
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        uvicorn.Server(server_settings(app)).run(sockets)


def _bind_problem(host: str, port: int, error: OSError) -> str:
    expected = {errno.EADDRINUSE: "a free one", errno.EACCES: "one that this user may listen at, such as 8100"}
    wanted = expected.get(error.errno or 0, "one to listen at")
    return f"port: expected {wanted} at {host}, got {port}: {error.strerror}"
