"""In which type of number a processor multiplies faster: bfloat16 with AMX, float32 without, by a factor of five."""

from __future__ import annotations

import time
from functools import cache

import torch

from geoalign.console.terminal import Console, say

# Rows, inputs and outputs of the matrix product that is timed: a layer of a small language model on a batch of tokens.
_SHAPE = (256, 768, 2048)
_TRIES = 5
# Below this the other type's coarser numbers are not worth it, and a busy machine would decide by chance.
_CLEARLY = 1.5


def fastest_dtype(device: str) -> str:
    """`bfloat16` on an accelerator, on a CPU where it is clearly faster than float32, measured once in a process."""
    if device.partition(":")[0] != "cpu":
        return "bfloat16"
    speed = cpu_speed()
    return "bfloat16" if speed["bfloat16"] >= _CLEARLY * speed["float32"] else "float32"


def print_fastest_dtype(console: Console, device: str) -> None:
    """Says in what a model on the CPU computes, and how fast this CPU is; nothing on an accelerator."""
    if device.partition(":")[0] == "cpu":
        (faster, rate), (other, slower) = sorted(cpu_speed().items(), key=lambda item: item[0] != fastest_dtype("cpu"))
        say(console, f"The model computes in {faster} on this CPU ({rate:.0f} GFLOP/s, {other} {slower:.0f})")


@cache
def cpu_speed() -> dict[str, float]:
    """GFLOP/s of a matrix product by type, timed by turns, the best try of each; about 0.1 s."""
    rows, inputs, outputs = _SHAPE
    pairs = {
        name: (torch.ones(rows, inputs, dtype=dtype), torch.ones(outputs, inputs, dtype=dtype))
        for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
    }
    best = dict.fromkeys(pairs, float("inf"))
    with torch.inference_mode():
        for _ in range(1 + _TRIES):
            for name, (tokens, weights) in pairs.items():
                start = time.perf_counter()
                torch.nn.functional.linear(tokens, weights)
                best[name] = min(best[name], time.perf_counter() - start)
    work = 2 * rows * inputs * outputs / 1e9
    return {name: work / seconds for name, seconds in best.items()}
