"""The settings of a comparison, its plan: one base run, the arms laid over it, corruption levels, seeds. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ValidatorFunctionWrapHandler, WrapValidator

from geoalign.lab.rewards.settings import RewardConfig
from geoalign.lab.train.settings import RunConfig
from geoalign.settings import Count, Seed, Workers, setting, settings

METRICS = {"accuracy": "accuracy", "reward": "reward", "gold_utility": "gold reward"}
KINDS = ("flip", "extremes", "shortcut")
CLEAN = "clean"
# Upper bound: clean rewards, which are unavailable in practice. They are the task's own, and nothing is curated.
CLEAN_ARM: dict[str, Any] = {
    "curator": {"type": "grpo"},
    "reward": {"function": None, "flip": 0.0, "extremes": 0.0, "shortcut": 0.0},
}

# What `geoalign compare` runs without a file: the arithmetic task, small.
DEFAULTS: dict[str, Any] = {
    "run": {
        "model": {"type": "tiny", "hidden_size": 96, "layers": 3, "heads": 4},
        "task": {"type": "arithmetic", "operands": 3, "digits": 2, "direct_share": 0.5, "demonstrations": 20000},
        "sft": {"max_steps": 500, "per_device_train_batch_size": 64, "learning_rate": 5e-3},
        "grpo": {
            "max_steps": 60, "num_generations": 16, "per_device_train_batch_size": 128, "steps_per_generation": 2,
            "learning_rate": 1e-4, "max_completion_length": 40,
        },
        "evaluation": {"every": 10, "problems": 256},
    },
    "arms": {
        "grpo": None,
        "denoise": {"curator": {"type": "denoise"}, "hidden_position": "mean"},
        "geoalign": None,
        "pair_count": None,
        "oracle": None,
        CLEAN: None,
    },
    "levels": {"flip_10": {"reward": {"flip": 0.1}}},
    "seeds": [0, 1, 2],
    "primary": [{"arm": "denoise", "against": "grpo"}],
}  # fmt: skip


@dataclass(frozen=True)
class CuratorName:
    """The name of a curator in place of its settings."""

    type: str


@dataclass(frozen=True)
class BaseOfTables:
    """What tables and pages need of a base run; without the rest no curator, and so no torch, is loaded."""

    reward: RewardConfig
    curator: CuratorName
    grpo: Mapping[str, Any]


def _run_or_its_table(value: Any, validated: ValidatorFunctionWrapHandler) -> Any:
    return value if isinstance(value, BaseOfTables) else validated(value)


@settings
class PrimaryComparison:
    """A comparison that was chosen before looking; all others are exploratory."""

    arm: str = setting(help="The arm in question.")
    against: str = setting(help="The arm it is measured against, seed by seed.")


@settings
class CompareConfig:
    """Arms x levels x seeds of one base run.

    A run's settings are those under `run`, the level's laid over them, then the arm's; seed and shared warm start are
    the comparison's. An arm or level is nested settings as in the YAML of a run.
    """

    run: Annotated[RunConfig, WrapValidator(_run_or_its_table)] = setting(
        default_factory=RunConfig, help="The base run."
    )
    arms: dict[str, dict[str, Any]] = setting(help="Each arm's settings, by name, merged into the base run.")
    levels: dict[str, dict[str, Any]] = setting(
        default_factory=lambda: {"as_given": {}}, help="Each level's settings, by name, usually of `reward`."
    )
    seeds: list[Seed] = setting(default_factory=lambda: [0, 1, 2], help="Every arm runs at every level with each seed.")
    seeds_per_warm_start: Count | None = setting(
        default=None,
        help=(
            "So many seeds share a warm start, reward model and problems: seed s those made with run.seed + s // this "
            "(unless task.seed fixes the problems). null: all share those of run.seed."
        ),
    )
    arms_at: dict[str, list[str]] = setting(
        default_factory=dict, help="The levels of each arm that does not run at all of them."
    )
    baseline: str = setting(default="grpo", help="The arm that the others are compared with.")
    oracle: str | None = setting(
        default="oracle", help="The arm whose difference from the baseline is the headroom; null: none."
    )
    primary: list[PrimaryComparison] = setting(
        default_factory=list, help="Comparisons chosen beforehand; the others are exploratory."
    )
    metric: Literal["accuracy", "reward", "gold_utility"] = setting(default="accuracy", help="What the table compares.")
    last_evaluations: Count = setting(default=5, help="The final score is the mean over this many last evaluations.")
    workers: Workers | None = setting(
        default=None, help="Parallel runs, a process each; null: as many as the machine has cores."
    )
    keep_runs: bool = setting(default=False, help="Keep the run folders (rollouts, checkpoints).")

    @property
    def control(self) -> str | None:
        """The first arm whose curator replaces by the number of pairs alone; None without such an arm."""
        return next((name for name in self.arms if self.curator_of(name) == "pair_count"), None)

    def curator_of(self, arm: str) -> str:
        """The name of an arm's curator: its own, else that of the base run."""
        own = self.arms[arm].get("curator") or {}
        if isinstance(own, str):  # a name alone
            return own
        return str(own.get("type", self.run.curator.type))

    def corruption(self, level: str, arm: str | None = None) -> dict[str, float]:
        """Share of an arm's rewards that are corrupted at a level, by kind; kinds that are 0 are left out.

        None, or an arm without settings of its own for `reward`, has those of the level.
        """
        reward = self._reward(level, arm)
        return {kind: reward[kind] for kind in KINDS if reward[kind]}

    def updates_per_generation(self, level: str, arm: str) -> float:
        """The updates that an arm makes on each generation at a level; NaN where its settings do not say."""
        settings = dict(self.run.grpo)
        for overlay in (self.levels.get(level, {}), self.arms.get(arm, {})):
            settings.update(overlay.get("grpo") or {})
        return updates_per_generation(settings)

    def rate(self, level: str, arm: str | None = None) -> float:
        """Share of an arm's rewards that are corrupted at a level, all kinds together; NaN where unknown, as with a
        reward function that errs by itself."""
        if level not in self.levels or self._reward(level, arm)["function"] is not None:
            return math.nan
        return float(sum(self.corruption(level, arm).values()))

    def _reward(self, level: str, arm: str | None) -> dict[str, Any]:
        """What an arm's rewards at a level are made by: the base run's settings, the level's over them, the arm's."""
        reward = {name: getattr(self.run.reward, name) for name in (*KINDS, "function")}
        reward.update(self.levels[level].get("reward") or {})
        if arm in self.arms:
            reward.update(self.arms[arm].get("reward") or {})
        return reward

    def is_primary(self, arm: str, against: str) -> bool:
        return any((item.arm, item.against) == (arm, against) for item in self.primary)

    def role(self, arm: str) -> str:
        """ "baseline", "primary", "control", "oracle", "bound" (it changes the corruption) or "exploratory"."""
        if any(item.arm == arm for item in self.primary):
            return "primary"
        roles = {self.baseline: "baseline", self.control: "control", self.oracle: "oracle"}
        reward = self.arms.get(arm, {}).get("reward") or {}
        return roles.get(arm) or ("bound" if reward.keys() & CLEAN_ARM["reward"].keys() else "exploratory")

    def planned(self, arm: str, level: str) -> bool:
        """Whether an arm runs at a level."""
        return level in self.arms_at.get(arm, self.levels)

    def has(self, level: str, arm: str, seed: int) -> bool:
        """Whether a run is one of this comparison's."""
        return arm in self.arms and level in self.levels and seed in self.seeds and self.planned(arm, level)


def updates_per_generation(grpo: Mapping[str, Any]) -> float:
    """The updates made on each generation, from a run's `grpo` section; NaN where it does not say.

    steps_per_generation x num_iterations / gradient_accumulation_steps, by TRL's rules and this project's default of
    two steps.
    """
    accumulation = grpo.get("gradient_accumulation_steps")
    steps = grpo.get("steps_per_generation")
    size = grpo.get("per_device_train_batch_size")
    batch = grpo.get("generation_batch_size")
    if steps is None and batch is not None:
        if size is None:
            return math.nan
        steps = batch / size
    return float((steps or accumulation or 2) * (grpo.get("num_iterations") or 1) / (accumulation or 1))
