"""Starting verl in processes of their own, on CPUs."""

from __future__ import annotations

import atexit
import functools
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

CPU = Path(__file__).parent / "cpu"
# Of one process and all that it starts; a training takes about a minute on two idle cores.
SECONDS = 600


def environment():
    """The variables under which verl runs on a CPU with our plug-in."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(CPU), os.environ.get("PYTHONPATH")])),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
        "VERL_ENGINE_VENDOR": "geoalign",
        # At INFO verl 0.9.1 fails in a line of its own log (separate_async without hybrid_engine).
        "VERL_LOGGING_LEVEL": "WARNING",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_num_prestart_python_workers": "0",
        # A busy machine is slow to start a worker; a raylet that does not come up is a failure.
        "RAY_raylet_start_wait_time_s": "40",
        "RAY_worker_register_timeout_seconds": "600",
    }


@functools.cache
def forks():
    """The socket of the process that verl's are forked from; it ends with this one."""
    path = Path(tempfile.mkdtemp(prefix="verl_forks_"), "socket")
    command = [sys.executable, CPU / "fork_python.py", "--serve"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen(command, env={**environment(), "GEOALIGN_FORKS": str(path)}, **streams)
    atexit.register(server.communicate)
    assert server.stdout.readline() == b"ready\n"
    return str(path)


def start(script, *arguments, folder, **variables):
    """A script of `cpu/` that runs in `folder`."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", CPU / "fork_python.py", CPU / script, *map(str, arguments)],
        env={**environment(), "GEOALIGN_FORKS": forks(), **variables},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(script, *arguments, folder, check=True, **variables):
    """Runs a script of `cpu/` in `folder`; returns the ended process with its output."""
    return finish(start(script, *arguments, folder=folder, **variables), check=check)


def finish(process, *, check=True):
    """The ended process with its output."""
    name = process.args[4:]
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        pytest.fail(f"{name} took more than {SECONDS} s\n{output[-2000:]}\n{errors[-6000:]}")
    if check and process.returncode:
        pytest.fail(f"{name} ended with {process.returncode}\n{output[-2000:]}\n{errors[-6000:]}")
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
