"""Which rows to check: choosers at equal numbers of distinct checks, in the closed loop of `benchmarks.closed_loop`.

    python -m benchmarks.choosers                         # both kinds of errors, 6, 13 and 26 checks, ten seeds
    python -m benchmarks.choosers --worlds flips_40 --checks 13 --arms informative,majority

An arm is a chooser with `denoise` behind it, or with `grpo` (`majority/grpo`). Printed is the mean true reward of the
policy at the end, and how many checks a batch it was.
"""

from __future__ import annotations

import argparse
import logging

import torch

from benchmarks.closed_loop import WORLDS, train
from geoalign import CURATORS, Appeals

ARMS = "informative,majority,majority/grpo,care,care/grpo,negatives,negatives/grpo,random,random/grpo"


def main() -> None:
    """Prints a line for each world, number of checks and arm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="repeated_40,flips_40", help="names, separated by commas")
    parser.add_argument("--checks", default="6,13,26", help="numbers, separated by commas")
    parser.add_argument("--arms", default=ARMS, help="choosers, separated by commas; behind a slash the inner curator")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    for name in options.worlds.split(","):
        for checks in map(int, options.checks.split(",")):
            for arm in options.arms.split(","):
                chooser, _, inner = arm.partition("/")
                finals = []
                asked = []
                for seed in range(options.seeds):
                    curator = Appeals(curator=CURATORS[inner or "denoise"](), choose=chooser, budget=checks)
                    final, measured = train(WORLDS[name], curator, seed, checks=True)
                    finals.append(final)
                    asked.append(measured["appeals_asked"])
                values = torch.tensor(finals)
                line = f"{name:16} {checks:3} {arm:20} {values.mean():.3f} (seeds' deviation {values.std():.3f})"
                print(f"{line}  checks {sum(asked) / len(asked):.1f}", flush=True)


if __name__ == "__main__":
    main()
