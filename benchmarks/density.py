"""The density criterion beside scipy's `gaussian_kde`, in one run: milliseconds, and whether the flags are the same.

    python -m benchmarks.density

1,536 scores with an upper tail (96 groups x 16), on the CPU, or on the device named.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.stats import gaussian_kde

from benchmarks.stages import synchronise
from geoalign.curators.rectifying import TailConfig, flag_sparse_tail

_ALPHA = 0.05


def scores_with_a_tail(count: int) -> np.ndarray:
    """`count` scores: a gamma distribution, and one in fifty far above it."""
    draw = np.random.default_rng(0)
    far = count // 50
    return np.concatenate([draw.gamma(4, 1, count - far), draw.uniform(15, 30, far)]).astype(np.float32)


def flags_by_scipy(scores: np.ndarray) -> np.ndarray:
    """The scores above the last one whose density, by scipy, is at least alpha times the peak."""
    values = scores.astype(np.float64)
    estimate = gaussian_kde(values)
    density = estimate(values)
    return values > values[density >= _ALPHA * density.max()].max()


def milliseconds(call: Callable[[], object], device: torch.device, repeats: int) -> tuple[float, float]:
    """The median of several calls, after one that warms up, and the shortest.

    On a CPU processor time, which other load on the cores does not change as it changes the clock's.
    """
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    taken = []
    for _ in range(repeats + 1):
        synchronise(device)
        started = clock()
        call()
        synchronise(device)
        taken.append(1000 * (clock() - started))
    return statistics.median(taken[1:]), min(taken[1:])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density")
    parser.add_argument("--scores", type=int, nargs="+", default=[512, 1536, 4096])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    config = TailConfig(alpha=_ALPHA, max_fraction=None)
    print(f"{torch.get_num_threads()} threads, {device}")
    print("| scores | scipy, ms (shortest) | here, ms (shortest) | ratio | same flags |\n|---|---|---|---|---|")
    for count in options.scores:
        scores = scores_with_a_tail(count)
        given = torch.from_numpy(scores).to(device)
        same = np.array_equal(flags_by_scipy(scores), flag_sparse_tail(given, config).suspect.cpu().numpy())
        before = milliseconds(lambda scores=scores: flags_by_scipy(scores), torch.device("cpu"), options.repeats)
        now = milliseconds(lambda given=given: flag_sparse_tail(given, config), device, options.repeats)
        times = " | ".join(f"{median:.1f} ({shortest:.1f})" for median, shortest in (before, now))
        print(f"| {count:,} | {times} | {before[0] / now[0]:.1f} | {'yes' if same else 'no'} |")


if __name__ == "__main__":
    main()
