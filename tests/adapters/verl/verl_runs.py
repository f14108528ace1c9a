"""Starting verl in a process of its own, on CPUs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


def run(*command, folder, check=True, **variables):
    """Runs a script of `cpu/` (or `-m module ...`) in `folder`; returns the ended process with its output."""
    first, *rest = map(str, command)
    process = subprocess.Popen(
        [sys.executable, first if first.startswith("-") else str(CPU / first), *rest],
        env={**environment(), **variables},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        pytest.fail(f"{rest} took more than {SECONDS} s\n{output[-2000:]}\n{errors[-6000:]}")
    if check and process.returncode:
        pytest.fail(f"{rest} ended with {process.returncode}\n{output[-2000:]}\n{errors[-6000:]}")
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
