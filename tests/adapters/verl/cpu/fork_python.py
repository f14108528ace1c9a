"""`fork_python.py SCRIPT ARGUMENTS...`: the script in a process forked from one that has what verl imports.

    python fork_python.py --serve        # that process, in GEOALIGN_FORKS, until its standard input ends

A start is a fork, not ten seconds; Ray starts its workers so by `py_executable`. verl and Ray are not loaded before:
they read the environment as they are imported.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

LOADED = (
    *("torch._dynamo", "datasets", "transformers.models.auto.modeling_auto", "peft", "tensordict", "hydra", "pandas"),
    *("transformers.models.qwen2.modeling_qwen2", "fastapi", "aiohttp", "torchdata.stateful_dataloader"),
)


def ask() -> int:
    """Has the script run with this process's arguments, environment, folder and output; its exit status."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(os.environ["GEOALIGN_FORKS"])
        request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
        socket.send_fds(server, [len(request).to_bytes(4)], [1, 2])
        server.sendall(request)
        return int.from_bytes(server.recv(1) or b"\1")


def serve() -> None:
    for name in LOADED:
        importlib.import_module(name)
    assert "ray" not in sys.modules
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.environ["GEOALIGN_FORKS"])
    listener.listen(64)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            look_after(connection)
        connection.close()


def look_after(connection: socket.socket) -> None:
    """Forks the script; it is killed with the process that asked for it, which gets its status, or with the tests."""
    size, streams, _, _ = socket.recv_fds(connection, 4, 2)
    arguments, environment, folder = json.loads(connection.recv(int.from_bytes(size), socket.MSG_WAITALL))
    if not (child := os.fork()):
        connection.close()
        run(arguments, environment, folder, streams)
    if {connection, sys.stdin} & set(select.select([connection, sys.stdin, os.pidfd_open(child)], [], [])[0]):
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.send(bytes([status if status >= 0 else 128 - status]))
    os._exit(0)


def run(arguments: list[str], environment: dict[str, str], folder: str, streams: list[int]) -> None:
    os.setsid()
    for place, stream in enumerate(streams, start=1):
        os.dup2(stream, place)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else sys.exit(ask())
