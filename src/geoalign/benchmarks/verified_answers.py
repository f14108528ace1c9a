"""How many answers a second are verified here: on this machine.

Run: python -m geoalign.benchmarks.verified_answers [--count 1000] [--workers 2]

Three kinds, each with as many different comparisons as answers, so that none is remembered: integers, which are decided
at once; fractions against fractions and decimals; sums with roots.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import Random

from geoalign.config.rewards import RewardConfig
from geoalign.rewards import VerifiedReward

_Pair = tuple[str, str]


def integers(number: int, random: Random) -> _Pair:
    """An integer, right in one of two."""
    return str(number), str(number + random.randrange(2))


def fractions(number: int, random: Random) -> _Pair:
    """An unreduced fraction against a decimal or a reduced one."""
    return f"{number}/4", random.choice((f"\\frac{{{2 * number}}}{{8}}", str(number / 4), f"\\frac{{{number}}}{{5}}"))


def roots(number: int, random: Random) -> _Pair:
    """A sum with a root against another way to write it, right in one of two."""
    return f"{number}\\sqrt{{8}}+\\pi", f"\\pi+{2 * number + random.randrange(2)}\\sqrt{{2}}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="answers of each kind")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    with VerifiedReward(RewardConfig(workers=arguments.workers)) as reward:
        started = time.perf_counter()
        reward.score(["\\boxed{\\frac{1}{1}}", "\\boxed{\\frac{2}{1}}"], ["1", "2"])
        print(f"start of {reward._workers.started} process(es): {time.perf_counter() - started:.2f} s")
        for kind in (integers, fractions, roots):
            _measure(reward, kind, arguments.count)
        print(reward.counters)


def _measure(reward: VerifiedReward, kind: Callable[[int, Random], _Pair], count: int) -> None:
    random = Random(0)
    pairs = [kind(number, random) for number in range(1, count + 1)]
    started = time.perf_counter()
    rewards = reward.score([f"\\boxed{{{answer}}}" for _, answer in pairs], [gold for gold, _ in pairs])
    seconds = time.perf_counter() - started
    print(f"{kind.__name__}: {count} in {seconds:.2f} s, {count / seconds:.0f} a second, {sum(rewards):.0f} correct")


if __name__ == "__main__":
    main()
