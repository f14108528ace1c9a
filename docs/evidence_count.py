"""Which gains of `denoise` count, by unit and by rule, and which planned levels have not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import evidence_results as results
from evidence_results import ROOT, Level, last_gold

from geoalign.lab.analysis.statistics import PairedDifference, holm
from geoalign.lab.store.json_files import read_yaml

SEED, WARM_START = "seed", "warm start"


@dataclass(frozen=True)
class Gain:
    """Final score of `denoise` minus GRPO's, p by Holm's correction, and the same of the gold utility at the end."""

    score: PairedDifference
    p: float
    gold: PairedDifference | None

    @property
    def found(self) -> bool:
        """Whether it is a gain but for the gold utility."""
        return self.score.interval.low > 0 and self.p < 0.05


def judged() -> dict[str, Level]:
    """The levels that can show a gain: those at which the oracle is better than GRPO."""
    return {one.label: one.level for one in results.PLANNED if one.level.score("oracle").interval.low > 0}


def gains(unit: str = SEED) -> dict[str, Gain]:
    """The gain at every level; Holm's correction is over all levels and both measures, as the plan has it."""
    levels = judged()
    if unit == WARM_START:
        scores = {label: level.over_warm_starts("denoise") for label, level in levels.items()}
        golds = {label: levels[label].over_warm_starts("denoise", last_gold) for label in _with_gold(levels)}
    else:
        scores = {label: level.score("denoise") for label, level in levels.items()}
        golds = {label: levels[label].minus("denoise", last_gold) for label in _with_gold(levels)}
    p = holm([one.p for one in (*scores.values(), *golds.values())])
    return {label: Gain(scores[label], p[at], golds.get(label)) for at, label in enumerate(scores)}


def _with_gold(levels: dict[str, Level]) -> list[str]:
    return [label for label in levels if "dialogue" in label]


def gold_at_equal_proxy_is_lower(label: str, gain: Gain) -> bool:
    """The rule since the second round: gold below the oracle's where both first reach a proxy reward."""
    return gain.gold is not None and any(
        beside.interval.high < 0 for beside in results.gold_beside_oracle(judged()[label], "denoise")
    )


def gold_at_the_end_is_lower(label: str, gain: Gain) -> bool:
    """The first rule: gold below GRPO's at the end of training."""
    return gain.gold is not None and gain.gold.interval.high < 0


def counted(unit: str = SEED, unless: Callable[[str, Gain], bool] = gold_at_equal_proxy_is_lower) -> dict[str, Gain]:
    """The gains that count: found, and not at the cost of gold utility by the rule."""
    return {label: gain for label, gain in gains(unit).items() if gain.found and not unless(label, gain)}


# The plans in configs/evidence and where their runs are; nothing has run of a plan without a folder.
PLANS = {
    "math": "math_denoise",
    "math_hard": "math_hard_denoise",
    "math_wide": None,
    "dialogue": "dialogue_denoise_again",
    "dialogue_wide": "dialogue_wide",
    "dialogue_unbiased": "dialogue_unbiased",
}


def planned() -> Iterator[tuple[str, str, bool]]:
    """Plan and name of every planned level, and whether it has run."""
    for plan, folder in PLANS.items():
        settings, _ = read_yaml(ROOT / "configs" / "evidence" / f"{plan}.yaml")
        if "base" in settings:
            settings, _ = read_yaml(ROOT / "configs" / "evidence" / settings["base"])
        for level in settings["levels"]:
            yield plan, level, folder is not None and results.has_run(folder, level)


def arms_without_a_run(task: str) -> list[str]:
    """The planned arms of a task that have run at none of its levels."""
    settings, _ = read_yaml(ROOT / "configs" / "evidence" / f"{task}.yaml")
    levels = [one.level for one in results.PLANNED if one.folder in {PLANS[plan] for plan in PLANS if task in plan}]
    return [arm for arm in settings["arms"] if not any(level.has(arm) for level in levels)]
