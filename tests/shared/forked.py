"""Python processes forked from one that has torch, transformers and TRL loaded: a start is a fork, not eight seconds.

For tests that look at what happens between processes. That the commands start by themselves is tested elsewhere.
"""

import functools
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from pathlib import Path
from typing import IO, Any

import pytest


@functools.cache
def forks() -> Any:
    """The context of multiprocessing whose processes are forked from the loaded one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["preloaded"])
        multiprocessing.forkserver.ensure_running()
    return context


class Popen:
    """As `subprocess.Popen`, of `[python, *arguments]`; standard streams are files, or for the input a pipe."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdout: IO[bytes],
        stderr: IO[bytes] | int = subprocess.STDOUT,
        stdin: int = subprocess.DEVNULL,
        start_new_session: bool = False,
    ) -> None:
        errors = stdout if stderr == subprocess.STDOUT else stderr
        assert not isinstance(errors, int)
        reading, writing = os.pipe()
        streams = [_Descriptor(number) for number in (reading, stdout.fileno(), errors.fileno())]
        # The first word is the interpreter.
        options = (list(command[1:]), dict(env), streams, start_new_session)
        self._process = forks().Process(target=_run_python, args=options)
        self._process.start()
        os.close(reading)
        self.stdin: IO[bytes] | None = os.fdopen(writing, "wb")
        if stdin == subprocess.DEVNULL:
            self.stdin.close()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


def run(*arguments: object, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run_ranks(1, *arguments, env=env)[0]


def run_ranks(
    count: int, *arguments: object, env: Mapping[str, str] | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """As many processes as `torchrun` would start; each has an environment that says which one it is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(count)}
    command = [sys.executable, *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(count):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), **shared} if count > 1 else {}
            with Path(folder, f"{rank}.out").open("wb") as out, Path(folder, f"{rank}.err").open("wb") as errors:
                processes.append(Popen(command, env={**(env or os.environ), **own}, stdout=out, stderr=errors))
        codes = [process.wait(300) for process in processes]
        assert None not in codes, "a process did not end"
        done = []
        for rank, code in enumerate(codes):
            out = Path(folder, f"{rank}.out").read_text()
            errors = Path(folder, f"{rank}.err").read_text()
            done.append(subprocess.CompletedProcess(command, code, out, errors))
    return done


class _Descriptor:
    """A file descriptor that a process takes along."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getstate__(self) -> Any:
        return reduction.DupFd(self.number)

    def __setstate__(self, state: Any) -> None:
        self.number = state.detach()


def _run_python(arguments: list[str], env: dict[str, str], streams: list[_Descriptor], new_session: bool) -> None:
    """What the interpreter does with `-m MODULE ...` or `FILE ...`."""
    if new_session:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream.number, number)
        os.close(stream.number)
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).parent))
        runpy.run_path(arguments[0], run_name="__main__")
