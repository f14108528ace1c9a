"""In which type of number a device multiplies matrices faster, by a rule: bfloat16 where the hardware has it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from geoalign.console.terminal import Console, say

# Instructions that multiply matrices of bfloat16, by the names that Linux gives them. With AMX bfloat16 is about five
# times faster than float32. Without either of the two it is emulated, and slower.
_BFLOAT16_INSTRUCTIONS = {"amx_bf16", "avx512_bf16"}


def fastest_dtype(device: str) -> str:
    """`bfloat16` on an accelerator and on a CPU that multiplies it in hardware, `float32` on any other CPU.

    `device` is a device's name as torch has it, such as `cpu` or `cuda:1`.
    """
    if not _is_cpu(device):
        return "bfloat16"
    return "bfloat16" if cpu_flags() & _BFLOAT16_INSTRUCTIONS else "float32"


def print_fastest_dtype(console: Console, device: str) -> None:
    """Says in which type a model on the CPU computes; nothing on an accelerator."""
    if not _is_cpu(device):
        return
    dtype = fastest_dtype(device)
    multiplies = "multiplies" if dtype == "bfloat16" else "does not multiply"
    say(console, f"The model computes in {dtype}: this CPU {multiplies} bfloat16 in hardware.")


@cache
def cpu_flags() -> frozenset[str]:
    """The instruction sets of this machine's CPU, by Linux's names; empty on another system."""
    description = Path("/proc/cpuinfo")
    if not description.is_file():
        return frozenset()
    for line in description.read_text().splitlines():
        name, _, flags = line.partition(":")
        if name.strip() == "flags":
            return frozenset(flags.split())
    return frozenset()


def _is_cpu(device: str) -> bool:
    return device.partition(":")[0] == "cpu"
