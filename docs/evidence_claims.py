"""The figures of the claims that README.md and docs/evidence.md make first, computed from `evidence/`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import evidence_count as count
import numpy as np
from evidence_count import SEED, WARM_START, gold_at_the_end_is_lower
from evidence_results import PLANNED, ROOT, SMOLLM2, Level
from evidence_words import signed

from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.store.json_files import read_yaml

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
# The words that the sentences have for levels.
FORTY = "dialogue, 40% reversed"
THREE = "three numbers, 40% flipped"
TEN, REVERSED = "dialogue, 10% reversed", "dialogue, 20% reversed"
WIDER, LESS = "dialogue, wider model, 40% reversed", "dialogue, less bias, 40% reversed"
FLIPPED = [one for one in PLANNED if "flipped" in one.label]


def both_pages() -> Iterator[str]:
    """What either page must say."""
    levels = {one.label: one.level for one in PLANNED}
    of_seeds, of_warm_starts = count.counted(SEED), count.counted(WARM_START)
    yield f"{NUMBERS[len(of_seeds)]} of {NUMBERS[len(levels)]} levels with seeds as units"
    assert set(of_warm_starts) == {FORTY, LESS}
    yield f"{NUMBERS[len(of_warm_starts)]} with warm starts"
    # No loss is detected: no interval of the gain in the given reward lies below zero.
    assert all(gain.score.interval.high > 0 for unit in (SEED, WARM_START) for gain in count.gains(unit).values())


def _counted(levels: dict[str, Level]) -> Iterator[str]:
    """Where `denoise` gains, by either unit, and how much."""
    means = [mean for level in levels.values() for mean in level.by_warm_start("denoise")]
    yield f"{sum(mean > 0 for mean in means)} of {len(means)} means"
    yield f"in all {len(_pairs())} pairs of task and warm start"
    assert all(np.mean(gains) > 0 for gains in _pairs().values())
    of_seeds, of_warm_starts = count.counted(SEED), count.counted(WARM_START)
    old, old_by_warm_start = (count.counted(unit, gold_at_the_end_is_lower) for unit in (SEED, WARM_START))
    assert set(old) == set(of_seeds) - {FORTY} | {WIDER}
    assert set(old_by_warm_start) == set(of_warm_starts) - {FORTY} | {WIDER}
    shares = {label: 100 * level.share("denoise").estimate for label, level in levels.items()}
    won = [shares[label] for label in of_seeds]
    yield f"{min(won):.0f}% to {max(won):.0f}% of the oracle's gain"
    yield f"{min(shares.values()):.0f}% to {max(shares.values()):.0f}% of all"


def _pairs() -> dict[tuple[str, int], list[float]]:
    """The gains at the levels of each pair of task and warm start."""
    found: dict[tuple[str, int], list[float]] = {}
    for one in PLANNED:
        for place, gain in enumerate(one.level.by_warm_start("denoise")):
            found.setdefault((one.folder, place), []).append(gain)
    return found


def page() -> Iterator[str]:
    """What docs/evidence.md alone says."""
    levels = {one.label: one.level for one in PLANNED}
    yield from _counted(levels)
    of_seeds = count.counted(SEED)
    left_out = {label: gain.found for label, gain in count.gains(SEED).items() if label not in of_seeds}
    assert left_out == {WIDER: True, "dialogue, flattery rewarded": True, TEN: False, REVERSED: False}
    tasks = {"on maths": levels[THREE], "on dialogue": levels[FORTY], "by SmolLM2": SMOLLM2.level}
    for words, level in tasks.items():
        steps = level.curve("grpo").steps
        yield f"updates {steps[-5]} to {steps[-1]} {words}"
    ours, oracle = ([_cosine(one.level, arm) for one in FLIPPED] for arm in ("denoise", "oracle"))
    yield f"{min(oracle):.2f} to {max(oracle):.2f}, that of `denoise` {min(ours):.2f} to {max(ours):.2f}"
    planned = list(count.planned())
    left = [setting for setting in planned if not setting[-1]]
    yield f"Of {len(planned)} planned levels {NUMBERS[len(left)]} have not run"
    for plan, words in NOT_RUN.items():
        missing = [level for name, level, run in left if name == plan]
        yield words.format(NUMBERS[len(missing)])
    assert {name for name, *_ in left} == set(NOT_RUN)
    for task in ("dialogue", "maths"):
        *some, last = (f"`{arm}`" for arm in count.arms_without_a_run("math" if task == "maths" else task))
        yield f"on {task} {', '.join(some)} and {last}"
    six = sum(gain.gold is not None for gain in count.gains(SEED).values())
    yield f"over {NUMBERS[len(levels)]} levels and the gold utility of the {NUMBERS[six]} on dialogue"
    problems = read_yaml(ROOT / "evidence" / SMOLLM2.folder / "compare.yaml")[0]["run"]["task"]["evaluation_problems"]
    yield f"{NUMBERS[len(SMOLLM2.level.seeds)]} seeds of one warm start, {problems} problems"
    yield from _real_rewards()


# What has not run of each plan, in the words of the page.
NOT_RUN = {
    "math_hard": "five numbers with the shortcut ({})",
    "math_wide": "the wider model on maths ({})",
    "dialogue_wide": "on dialogue but at 40% ({})",
    "dialogue_unbiased": "the less biased reward model but at 40% ({})",
}


def _cosine(level: Level, arm: str) -> float:
    """Cosine of an arm's advantages with the true ones, mean over generations and seeds."""
    return float(np.nanmean([np.nanmean(cell.series["advantage_cosine"]) for cell in level.cells if cell.arm == arm]))


def _real_rewards() -> Iterator[str]:
    """HumanEval: P(a right solution stands above a wrong one), by the shares of asserts passed and as verdicts."""
    verdict = "verdict: at least 0.5"
    rows = [row for name in ("positions", "geoalign") for row in _rows(f"humaneval_codegen16b_{name}")]

    def row(view: str, score: str) -> dict[str, Any]:
        return next(one for one in rows if (one["view"], one["batches"], one["score"]) == (view, "one", score))

    def of(view: str, score: str) -> str:
        return f"{row(view, score)['order'][0]:.3f}"

    def beside(view: str, score: str) -> str:
        return f"{of(view, score)} ({signed(Interval(*row(view, score)['gain'])).replace(' (', ', ')}"

    codet, every = "consensus of checks", "denoise, all states"
    yield f"CodeT's consensus of checks, without any states, {of(verdict, codet)}"
    yield f"the verdicts {of(verdict, 'observed reward')}, `denoise` {beside(verdict, every)}"
    yield f"GeoAlign {signed(Interval(*row(verdict, PAPERS)['gain']))}"


PAPERS = "geoalign, paper's"


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((ROOT / "evidence" / "wrong_rewards" / f"{name}.json").read_text())["rows"]
    return rows
