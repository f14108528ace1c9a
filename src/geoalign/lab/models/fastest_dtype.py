"""In which type of number a processor multiplies faster: bfloat16 with AMX, float32 without, by a factor of five."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import torch

from geoalign.lab.terminal import Console

# Rows, inputs and outputs of the matrix product that is timed: a layer of a small language model on a batch of tokens.
_SHAPE = (256, 768, 2048)
_TRIES = 5
# Below this the other type's coarser numbers are not worth it, and a busy machine would decide by chance.
_CLEARLY = 1.5


@dataclass(frozen=True)
class Speed:
    """Best rates of a matrix product on the CPU, in GFLOP/s."""

    float32: float
    bfloat16: float

    @property
    def dtype(self) -> str:
        """`bfloat16` where it is at least half as fast again as float32, else `float32`."""
        return "bfloat16" if self.bfloat16 >= _CLEARLY * self.float32 else "float32"

    def __str__(self) -> str:
        other = "float32" if self.dtype == "bfloat16" else "bfloat16"
        rates = {"float32": self.float32, "bfloat16": self.bfloat16}
        return f"{self.dtype} on this CPU ({rates[self.dtype]:.0f} GFLOP/s, {other} {rates[other]:.0f})"


def fastest_dtype(device: str) -> str:
    """`bfloat16` on an accelerator; on a CPU the faster of float32 and bfloat16, measured once in a process."""
    return cpu_speed().dtype if device.partition(":")[0] == "cpu" else "bfloat16"


def print_fastest_dtype(console: Console, device: str) -> None:
    """Says in what a model on the CPU computes, and how fast this CPU is; nothing on an accelerator."""
    if device.partition(":")[0] == "cpu":
        console.print(f"The model computes in {cpu_speed()}", markup=False, highlight=False, soft_wrap=True)


@cache
def cpu_speed() -> Speed:
    """Times a matrix product in both types by turns and keeps the best try of each; about 0.1 s."""
    rows, inputs, outputs = _SHAPE
    pairs = {
        dtype: (torch.ones(rows, inputs, dtype=dtype), torch.ones(outputs, inputs, dtype=dtype))
        for dtype in (torch.float32, torch.bfloat16)
    }
    best = dict.fromkeys(pairs, float("inf"))
    with torch.inference_mode():
        for _ in range(1 + _TRIES):
            for dtype, (tokens, weights) in pairs.items():
                start = time.perf_counter()
                torch.nn.functional.linear(tokens, weights)
                best[dtype] = min(best[dtype], time.perf_counter() - start)
    work = 2 * rows * inputs * outputs / 1e9
    return Speed(float32=work / best[torch.float32], bfloat16=work / best[torch.bfloat16])
