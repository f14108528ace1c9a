"""Random checks in a training: what they cost `appeals`, and how often alarms are false or missing.

    python -m benchmarks.training_checks alarms    # random checks: healthy runs, and runs whose verifier gets worse
    python -m benchmarks.training_checks model     # bounds on the model's rates in healthy runs: half an hour
    python -m benchmarks.training_checks cost      # the policy after training, by the random share: half an hour

`training_checks.md` has the output.
"""

from __future__ import annotations

import argparse
import logging
import statistics

import numpy as np
import torch
from torch import Generator

from benchmarks.closed_loop import WORLDS, train
from geoalign import GRPO, Appeals, Denoise, Monitor, Rollouts
from geoalign.checks.windows import WindowCounts
from geoalign.curators.random_checks import RandomChecks

HEALTHY_RUNS = 1000
WORSE_RUNS = 200
WINDOWS = 25
# The window from which on a verifier is worse.
RISE = 5
MODEL_RUNS = 25
BATCHES = 100
TRUE_RATE = 0.1
COST_SEEDS = 6


def first_alarm(before: float, after: float, draw: np.random.Generator) -> int | None:
    """The window, counted from the rise, of the first alarm of a run with 100 checks a window; None without one."""
    checks = RandomChecks(100)
    for number in range(WINDOWS):
        wrong = int(draw.binomial(100, 0.5))
        rate = before if number < RISE else after
        checks._closed.append(
            WindowCounts(
                wrong=wrong,
                accepted=int(draw.binomial(wrong, rate)),
                right=100 - wrong,
                refused=int(draw.binomial(100 - wrong, 0.1)),
            )
        )
        checks._compare_with_first_window()
        if checks._raised:
            return number + 1 - RISE
    return None


def alarms() -> None:
    """Prints how often random checks raise an alarm where nothing rises, and where the false positive rate does."""
    draw = np.random.default_rng(0)
    for rate in (0.05, 0.1, 0.2, 0.4):
        found = [first_alarm(rate, rate, draw) for _ in range(HEALTHY_RUNS)]
        alarmed = sum(each is not None for each in found)
        print(f"constant at {rate:.0%}: an alarm in {alarmed} of {HEALTHY_RUNS} runs")
    for before, after in ((0.05, 0.2), (0.05, 0.3), (0.05, 0.5), (0.1, 0.3), (0.1, 0.4), (0.2, 0.5), (0.2, 0.7)):
        found = [first_alarm(before, after, draw) for _ in range(WORSE_RUNS)]
        windows = [each for each in found if each is not None]
        median = statistics.median(windows) if windows else float("nan")
        share = len(windows) / WORSE_RUNS
        print(
            f"from {before:.0%} to {after:.0%}: found in {share:.0%} of runs, median window {median:g} after the rise"
        )


def healthy_batch(run: int, step: int) -> Rollouts:
    """16 prompts with 8 verdicts each, of which a tenth is wrong, while the share of right responses grows."""
    draw = Generator().manual_seed(run * 1000 + step)
    right_share = 1 / 3 + 0.4 * step / BATCHES
    right = torch.rand(128, generator=draw) < right_share
    named = torch.randint(3, (128,), generator=draw)
    flipped = torch.rand(128, generator=draw) < TRUE_RATE
    answers = ["right" if one else f"wrong {name}" for one, name in zip(right.tolist(), named.tolist(), strict=True)]
    return Rollouts(rewards=(right ^ flipped).float(), groups=torch.arange(16).repeat_interleave(8), answers=answers)


def model() -> None:
    """Prints in how many healthy runs a rate by the model lies above the true rate, in any batch and ten in a row."""
    names = ("false_positive_rate", "false_negative_rate")
    ever = dict.fromkeys(names, 0)
    ten_in_a_row = dict.fromkeys(names, 0)
    for run in range(MODEL_RUNS):
        monitor = Monitor(curator=GRPO())
        found = [monitor.curate(healthy_batch(run, step)).metrics for step in range(BATCHES)]
        for name in names:
            longest = streak = 0
            for metrics in found:
                streak = streak + 1 if metrics[f"{name}_low"] > TRUE_RATE else 0
                longest = max(longest, streak)
            ever[name] += longest >= 1
            ten_in_a_row[name] += longest >= 10
    for name in names:
        print(f"{name}: above in {ever[name]} of {MODEL_RUNS} runs, ten times in a row in {ten_in_a_row[name]}")


def cost() -> None:
    """Prints the true reward after training under `appeals` with 16 questions a batch, by its random share."""
    for world in ("repeated_40", "repeated_20", "half_repeated_40"):
        alone = [train(WORLDS[world], Denoise(geometry="none"), seed)[0] for seed in range(COST_SEEDS)]
        print(f"{world:18} denoise alone      {statistics.mean(alone):.3f}", flush=True)
        chosen: list[float] = []
        for share in (0.0, 0.25, 0.5):
            finals = []
            for seed in range(COST_SEEDS):
                curator = Appeals(Denoise(geometry="none"), budget=16, random_share=share)
                finals.append(train(WORLDS[world], curator, seed)[0])
            chosen = chosen or finals
            differences = [final - of_chosen for final, of_chosen in zip(finals, chosen, strict=True)]
            error = statistics.stdev(differences) / COST_SEEDS**0.5
            line = f"{world:18} random share {share:<5} {statistics.mean(finals):.3f}"
            print(f"{line}  {statistics.mean(differences):+.4f} (standard error {error:.4f})", flush=True)


def main() -> None:
    """Runs one of the three measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measurements = {"alarms": alarms, "model": model, "cost": cost}
    parser.add_argument("measurement", choices=measurements)
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    measurements[parser.parse_args().measurement]()


if __name__ == "__main__":
    main()
