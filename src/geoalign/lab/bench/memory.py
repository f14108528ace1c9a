"""Peak memory of this process."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def reset_peak() -> None:
    """Lets the high-water mark begin again at what the process holds now; does nothing where there is none (Linux has).

    Freed pages that the allocator kept would hide what a call takes, so they are given back first.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> float:
    """The high-water mark of resident memory; NaN where the system does not say."""
    if sys.platform != "linux":
        return float("nan")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    return float("nan")
