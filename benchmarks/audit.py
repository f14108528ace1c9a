"""What `geoalign audit` costs by rows and steps, and whether its intervals cover a verifier's error rates; scaling.md.

python -m benchmarks.audit --rows 2000 20000 100000 --worlds 200
python -m benchmarks.audit --rows 50000 --steps 1 98
python -m benchmarks.audit --rows 1000000 --steps 100 --size 16 --seed 3

Each call of the command is a process of its own, from its start to the written page. On a machine that has other work,
compare the seconds of the processor: those on the clock depend on the others.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch

from geoalign import Denoise
from geoalign.audit.verdicts import VerdictAudit
from geoalign.types import Rollouts

RATES = ("false_positive_rate", "false_negative_rate")


@dataclass(frozen=True)
class World:
    """A verifier that errs on each verdict alone, and the rollouts that it judged."""

    false_positive_rate: float
    false_negative_rate: float
    prompts: int
    size: int  # rollouts of a prompt
    answered: float  # share of rollouts with an answer
    ease: float  # mean over prompts of the chance to be right, which is Beta
    concentration: float
    rivals: int  # wrong answers of a prompt; their shares are Dirichlet(1/2)

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> World:
        return cls(
            *rng.uniform(0, 0.3, 2), round(np.exp(rng.uniform(np.log(50), np.log(5000)))),
            int(rng.choice([4, 8, 16, 32])), rng.uniform(0.5, 1), rng.uniform(0.2, 0.8), rng.uniform(0.5, 4),
            int(rng.choice([2, 5, 20, 200])),
        )  # fmt: skip

    def rollouts(self, rng: np.random.Generator) -> pandas.DataFrame:
        """The columns that `VerdictAudit` reads."""
        rows, prior = self.prompts * self.size, (self.ease * self.concentration, (1 - self.ease) * self.concentration)
        group = np.repeat(np.arange(self.prompts), self.size)
        right = rng.random(rows) < rng.beta(*prior, self.prompts)[group]
        shares = rng.dirichlet(np.full(self.rivals, 0.5), self.prompts).cumsum(axis=1)
        wrong = 1 + np.minimum((rng.random((rows, 1)) > shares[group]).sum(axis=1), self.rivals - 1)
        errs = rng.random(rows) < np.where(right, self.false_negative_rate, self.false_positive_rate)
        given = zip(np.where(right, 0, wrong).tolist(), rng.random(rows) < self.answered, strict=True)
        frame = pandas.DataFrame({"group": group, "step": 0, "reward": (right ^ errs).astype(float), "answer": "0"})
        answers = pandas.Series([str(answer) if there else None for answer, there in given], dtype=object)
        return frame.assign(response=[f"response {row}" for row in range(rows)], final_answer=answers)


def audited(seed: int, **fixed: float) -> tuple[World, dict[str, Any], pandas.DataFrame]:
    """A world, what the audit says of its verifier's rates (nothing where they cannot be told), and the rollouts."""
    rng, audit = np.random.default_rng(seed), VerdictAudit()
    world = replace(World.drawn(rng), **fixed)
    audit.add(frame := world.rollouts(rng))
    return world, audit.summary().get("rates") or {}, frame


def covered(seed: int, **fixed: float) -> list[bool]:
    """Whether the interval of each rate covers it."""
    world, rates, _ = audited(seed, **fixed)
    return [rates[name]["low"] <= getattr(world, name) <= rates[name]["high"] for name in RATES if name in rates]


def alarm(seed: int, **fixed: float) -> tuple[bool, float]:
    """Of a verifier that never errs: whether an interval excludes 0, and the share of rollouts that are flagged."""
    _, rates, frame = audited(seed, **{**dict.fromkeys(RATES, 0.0), **fixed})
    rewards, groups = (torch.tensor(frame[name].to_numpy()) for name in ("reward", "group"))
    curation = Denoise(geometry="none").curate(Rollouts(rewards, groups, answers=frame["final_answer"].tolist()))
    return any(rates[name]["low"] > 0 for name in RATES if name in rates), float(curation.anomalous.double().mean())


def write_rollouts(path: Path, rows: int, steps: int = 1, *, size: int = 8, seed: int = 0) -> None:
    """A dump of about 1,200 bytes a row, `size` rows a prompt, whole prompts spread evenly over steps."""
    prompts_a_step = -(-(rows // size) // steps)
    rng, words = np.random.default_rng(seed), random.Random(seed)
    phrases = [" ".join(f"{words.getrandbits(20):x}" for _ in range(20)) for _ in range(5000)]
    world = World(0.08, 0.08, rows // size, size, 1.0, 0.5, 2.4, 20).rollouts(rng)
    with path.open("w", encoding="utf-8") as file:
        for group, reward, answer in world[["group", "reward", "final_answer"]].itertuples(index=False):
            response = f"{' '.join(words.choices(phrases, k=9))} The answer is \\boxed{{{answer}}}."
            prompt = f"{group}: {phrases[group % 5000]}"
            row = {"step": group // prompts_a_step, "prompt": prompt, "response": response, "reward": reward}
            file.write(json.dumps(row) + "\n")


def cost(rows: int, steps: int = 1, *, size: int = 8, seed: int = 0) -> dict[str, float]:
    """Of one call of the command: seconds on the clock and of the processor, and the highest memory of its process.

    `passes` are the processor's seconds in units of one pass of `json.loads` over the lines.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "rollouts.jsonl", Path(folder) / "audit"
        write_rollouts(path, rows, steps, size=size, seed=seed)
        started = time.process_time()
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
        one_pass = time.process_time() - started
        command = [sys.executable, "-m", "geoalign", "audit", str(path), "--output", str(output)]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        # Of this process alone: `RUSAGE_CHILDREN` has the highest memory of all.
        _, status, usage = os.wait4(process.pid, 0)
        on_the_clock = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        seconds = usage.ru_utime + usage.ru_stime
        page = (output / "report.html").stat().st_size / 1e6
    return {
        "rows": rows,
        "steps": steps,
        "size": size,
        "on the clock": on_the_clock,
        "seconds": seconds,
        "passes": seconds / one_pass,
        "GB": usage.ru_maxrss * 1024 / 1e9,
        "page MB": page,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[])
    parser.add_argument("--steps", type=int, nargs="+", default=[1])
    parser.add_argument("--size", type=int, default=8, help="rollouts of a prompt")
    parser.add_argument("--seed", type=int, default=0, help="seed of the rollouts")
    parser.add_argument("--worlds", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for rows in options.rows:
        for steps in options.steps:
            print(cost(rows, steps, size=options.size, seed=options.seed), flush=True)
    if options.worlds:
        found = [one for seed in range(options.worlds) if (one := covered(seed))]
        print(f"covered in {len(found)} worlds: {dict(zip(RATES, np.mean(found, axis=0).tolist(), strict=True))}")
        alarms, flagged = np.mean([alarm(seed) for seed in range(options.worlds)], axis=0)
        print(f"without errors: alarms in {alarms:.1%} of them, {flagged:.2%} of the rollouts flagged")


if __name__ == "__main__":
    main()
