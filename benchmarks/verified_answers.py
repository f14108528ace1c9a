"""How many answers a second are verified here: on this machine, by kind and for a realistic mixture.

Run: python -m benchmarks.verified_answers [--count 1000] [--workers 2] [--math500 FILE] [--olympiadbench FILE]

Made kinds, each with as many different comparisons as answers, so that none is remembered: integers, fractions against
fractions and decimals, sums with roots. With the files, also the mixture: gold answers of MATH-500 and OlympiadBench,
each at most once, against themselves, another way to write them, or a wrong answer.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from random import Random

from geoalign.lab.config.rewards import RewardConfig
from geoalign.lab.rewards import VerifiedReward
from geoalign.lab.tasks.problems import load_benchmark
from geoalign.lab.terminal import Console, say

Pair = tuple[str, str]


def integers(number: int, random: Random) -> Pair:
    """An integer, right in one of two."""
    return str(number), str(number + random.randrange(2))


def fractions(number: int, random: Random) -> Pair:
    """An unreduced fraction against a decimal or a reduced one."""
    return f"{number}/4", random.choice((f"\\frac{{{2 * number}}}{{8}}", str(number / 4), f"\\frac{{{number}}}{{5}}"))


def roots(number: int, random: Random) -> Pair:
    """A sum with a root against another way to write it, right in one of two."""
    return f"{number}\\sqrt{{8}}+\\pi", f"\\pi+{2 * number + random.randrange(2)}\\sqrt{{2}}"


def mixture(golds: Sequence[str], count: int, random: Random) -> list[Pair]:
    """As many answers to different problems: four in ten as the gold one, two rewritten, four wrong."""
    chosen = random.sample(list(golds), min(count, len(golds)))
    return [(gold, random.choices((gold, rewritten(gold), wrong(gold)), (4, 2, 4))[0]) for gold in chosen]


def rewritten(gold: str) -> str:
    """The same answer, written so that it takes work to see it: the half of its double; a list in wider spacing."""
    gold = gold.replace("\\$", "")
    bare = gold.strip("$")
    if re.search(r"[=,$]|\\text|\\mbox|\\begin|\\cup|\\circ|%|[<>]|\\ge|\\le|\\pm|_", bare):
        return re.sub(r"([+=,])", r" \1 ", gold.replace("$", "").replace("\\frac", "\\dfrac"))
    return f"\\frac{{2 \\cdot ({bare})}}{{2}}"


def wrong(gold: str) -> str:
    """Another answer of the same form: its last number is one larger; without a number, twice the answer."""
    numbers = list(re.finditer(r"[0-9]+", gold))
    if not numbers:
        return f"2 {gold}"
    last = numbers[-1]
    return f"{gold[: last.start()]}{int(last[0]) + 1}{gold[last.end() :]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="answers of each kind")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--math500", help="file or hub id")
    parser.add_argument("--olympiadbench", help="file or hub id")
    arguments = parser.parse_args()
    with VerifiedReward(RewardConfig(workers=arguments.workers)) as reward:
        started = time.perf_counter()
        reward.score(["\\boxed{\\sqrt{4}}", "\\boxed{\\sqrt{9}}"], ["2", "3"])
        say(Console(), f"start of {reward._workers.started} process(es): {time.perf_counter() - started:.2f} s")
        for kind in (integers, fractions, roots):
            random = Random(0)
            measure(reward, kind.__name__, [kind(number, random) for number in range(1, arguments.count + 1)])
        places = {name: getattr(arguments, name) for name in ("math500", "olympiadbench")}
        golds = [
            problem.answer
            for name, place in places.items()
            if place
            for problem in load_benchmark(name, place).problems
        ]
        if golds:
            measure(reward, "mixture", mixture(golds, arguments.count, Random(0)))


def measure(reward: VerifiedReward, name: str, pairs: Sequence[Pair]) -> float:
    """Prints and returns the answers a second."""
    before = dict(reward.counters)
    started = time.perf_counter()
    reward.score([f"\\boxed{{{answer}}}" for _, answer in pairs], [gold for gold, _ in pairs])
    seconds = time.perf_counter() - started
    found = {key: value - before[key] for key, value in reward.counters.items() if value != before[key]}
    say(Console(), f"{name}: {len(pairs)} in {seconds:.2f} s, {len(pairs) / seconds:.0f} a second, of which {found}")
    return len(pairs) / seconds


if __name__ == "__main__":
    main()
