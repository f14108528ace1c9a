"""Starting verl in a process of its own, on CPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CPU = Path(__file__).parent / "cpu"


def environment():
    """The variables under which verl runs on a CPU with our plug-in; Ray waits longer on a busy machine."""
    return {
        **os.environ,
        "PYTHONPATH": str(CPU),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
        "VERL_ENGINE_VENDOR": "geoalign",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_num_prestart_python_workers": "0",
        "RAY_raylet_start_wait_time_s": "600",
        "RAY_worker_register_timeout_seconds": "900",
    }


def run(script, *arguments, check=True, **variables):
    process = subprocess.run(
        [sys.executable, CPU / script, *map(str, arguments)],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    if check and process.returncode:
        pytest.fail(f"{script} {arguments}\n{process.stdout[-2000:]}\n{process.stderr[-6000:]}")
    return process
