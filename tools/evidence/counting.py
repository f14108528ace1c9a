"""Which gains of version 2 of `denoise` count, by unit and by rule, and which planned levels and arms have not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from geoalign.files.json_files import read_written_yaml
from geoalign.statistics import PairedDifference, holm
from tools.evidence.curves import gold_beside_oracle, last_gold
from tools.evidence.results import ROOT, Level, has_run, levels_of
from tools.evidence.runs import EARLIER

SEED = "seed"
WARM_START = "warm start"


@dataclass(frozen=True)
class Gain:
    """Final score of `denoise` minus GRPO's, p by Holm's correction, and the same of the gold utility at the end."""

    score: PairedDifference
    p: float
    gold: PairedDifference | None

    @property
    def found(self) -> bool:
        """Whether it is a gain, whatever the gold utility."""
        return self.score.interval.low > 0 and self.p < 0.05


def judged() -> dict[str, Level]:
    """The levels that can show a gain: those at which the oracle is better than GRPO."""
    return {one.label: one.level for one in EARLIER if one.level.score("oracle").interval.low > 0}


def gains(unit: str = SEED) -> dict[str, Gain]:
    """The gain at every level; Holm's correction is over all levels and both measures, as the plan has it."""
    levels = judged()
    with_gold = {label: level for label, level in levels.items() if "dialogue" in label}
    if unit == WARM_START:
        scores = {label: level.over_warm_starts("denoise") for label, level in levels.items()}
        golds = {label: level.over_warm_starts("denoise", last_gold) for label, level in with_gold.items()}
    else:
        scores = {label: level.score("denoise") for label, level in levels.items()}
        golds = {label: level.minus("denoise", last_gold) for label, level in with_gold.items()}
    corrected = holm([one.p for one in (*scores.values(), *golds.values())])
    return {label: Gain(scores[label], corrected[at], golds.get(label)) for at, label in enumerate(scores)}


def gold_at_equal_proxy_is_lower(label: str, gain: Gain) -> bool:
    """The rule since the second round: gold below the oracle's where both first reach a proxy reward."""
    if gain.gold is None:
        return False
    differences = gold_beside_oracle(judged()[label], "denoise")
    return any(difference.interval.high < 0 for difference in differences)


def gold_at_the_end_is_lower(label: str, gain: Gain) -> bool:
    """The first rule: gold below GRPO's at the end of training."""
    return gain.gold is not None and gain.gold.interval.high < 0


def counted(unit: str = SEED, unless: Callable[[str, Gain], bool] = gold_at_equal_proxy_is_lower) -> dict[str, Gain]:
    """The gains that count: found, and not at the cost of gold utility by the rule."""
    return {label: gain for label, gain in gains(unit).items() if gain.found and not unless(label, gain)}


# The plans in configs/evidence and where their runs are; nothing has run of a plan without a folder.
FOLDER_OF_PLAN = {
    "math": "math_denoise",
    "math_hard": "math_hard_denoise",
    "math_wide": None,
    "dialogue": "dialogue_denoise_again",
    "dialogue_wide": "dialogue_wide",
    "dialogue_unbiased": "dialogue_unbiased",
}


# The main comparisons of configs/paper, which have some of these arms, too.
FOLDERS_OF_THE_PAPER = {"math": ("math",), "dialogue": ("dialogue", "dialogue_again")}


@dataclass(frozen=True)
class PlannedLevel:
    """A level of a plan, and whether it has run."""

    plan: str
    name: str
    has_run: bool


def planned_levels() -> list[PlannedLevel]:
    """Every level of the plans above."""
    found = []
    for plan, folder in FOLDER_OF_PLAN.items():
        settings = _plan_settings(plan)
        if "base" in settings:
            settings = _plan_settings(settings["base"].removesuffix(".yaml"))
        for name in settings["levels"]:
            found.append(PlannedLevel(plan, name, folder is not None and has_run(folder, name)))
    return found


def arms_without_a_run(task: str) -> list[str]:
    """The planned arms of a task ("math", "dialogue") that have run at none of its levels, in no plan."""
    folders = {folder for plan, folder in FOLDER_OF_PLAN.items() if task in plan}
    levels = [one.level for one in EARLIER if one.folder in folders]
    levels += [level for folder in FOLDERS_OF_THE_PAPER[task] for level in levels_of(folder).values()]
    return [arm for arm in _plan_settings(task)["arms"] if not any(level.has(arm) for level in levels)]


def _plan_settings(plan: str) -> dict:
    settings, _ = read_written_yaml(ROOT / "configs" / "evidence" / f"{plan}.yaml")
    return settings
