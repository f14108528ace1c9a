"""Which rows to check: choosers at equal numbers of distinct checks, in the closed loop of `benchmarks.closed_loop`.

    python -m benchmarks.choosers                         # both kinds of errors, 6, 13 and 26 checks, eight seeds
    python -m benchmarks.choosers --worlds flips_40 --checks 13 --arms informative,majority

An arm is a chooser with `denoise` behind it, or with `grpo` (`majority/grpo`). Printed is the mean true reward of the
policy at the end, its difference from the first arm's over the same seeds, and how many checks a batch it was.
"""

from __future__ import annotations

import argparse
import logging

import torch
from torch import Tensor

from benchmarks.closed_loop import WORLDS, train
from geoalign import CURATORS, Appeals

ARMS = "informative,error,majority,majority/grpo,care,care/grpo,negatives,random"


def main() -> None:
    """Prints a line for each world, number of checks and arm, with its difference from the first arm, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="repeated_40,flips_40", help="names, separated by commas")
    parser.add_argument("--checks", default="6,13,26", help="numbers, separated by commas")
    parser.add_argument("--wrong-checks", type=float, default=0.0, help="share of answers that are checked wrongly")
    parser.add_argument("--arms", default=ARMS, help="choosers, separated by commas; behind a slash the inner curator")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for name in options.worlds.split(","):
        for checks in map(int, options.checks.split(",")):
            of_first: Tensor | None = None
            for arm in options.arms.split(","):
                runs = [
                    train(WORLDS[name], curator_of(arm, checks), seed, checks=True, wrong_checks=options.wrong_checks)
                    for seed in seeds
                ]
                finals = torch.tensor([final for final, _ in runs])
                of_first = finals if of_first is None else of_first
                difference = finals - of_first
                error = difference.std() / len(seeds) ** 0.5
                asked = sum(measured["appeals_asked"] for _, measured in runs) / len(runs)
                print(
                    f"{name:12} {checks:3} {arm:15} {finals.mean():.3f}  from the first {difference.mean():+.4f} "
                    f"(standard error {error:.4f})  checks {asked:.1f}",
                    flush=True,
                )


def curator_of(arm: str, checks: int) -> Appeals:
    """The curator that an arm names: `CHOOSER` or `CHOOSER/INNER`."""
    chooser, _, inner = arm.partition("/")
    return Appeals(curator=CURATORS[inner or "denoise"](), choose=chooser, budget=checks, random_share=0.0)


if __name__ == "__main__":
    main()
