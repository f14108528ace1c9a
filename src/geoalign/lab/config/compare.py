"""The settings of a comparison, its plan: one base run, the arms laid over it, corruption levels, seeds. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation

from geoalign.lab.config.rewards import RewardConfig
from geoalign.lab.config.run import RunConfig
from geoalign.settings import setting, settings

METRICS = {"accuracy": "accuracy", "reward": "reward", "gold_utility": "gold utility"}
KINDS = ("flip", "extremes", "shortcut")
CLEAN = "clean"
# The upper bound that nobody can know in earnest: rewards are the task's own, uncorrupted, and nothing is curated.
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
            "max_steps": 60,
            "num_generations": 16,
            "per_device_train_batch_size": 128,
            "steps_per_generation": 2,
            "learning_rate": 1e-4,
            "max_completion_length": 40,
        },
        "evaluation": {"every": 10, "problems": 256},
    },
    "arms": {"grpo": None, "geoalign": None, "pair_count": None, "random": None, "oracle": None, CLEAN: None},
    "levels": {"flip_10": {"reward": {"flip": 0.1}}},
    "seeds": [0, 1, 2],
    "primary": [{"arm": "geoalign", "against": "grpo"}, {"arm": "geoalign", "against": "pair_count"}],
}


@dataclass(frozen=True)
class BaseOfTables:
    """What tables and pages need of a base run; without the rest no curator, and so no torch, is loaded."""

    reward: RewardConfig
    grpo: Mapping[str, Any]


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

    run: SkipValidation[RunConfig] = setting(default_factory=RunConfig, help="The base run.")
    arms: dict[str, dict[str, Any]] = setting(help="Name to settings laid over the base run.")
    levels: dict[str, dict[str, Any]] = setting(
        default_factory=lambda: {"as_given": {}}, help="Name to settings, in general of reward."
    )
    seeds: list[Annotated[int, Field(ge=0, lt=2**31)]] = setting(
        default_factory=lambda: [0, 1, 2], help="One run of every arm at every level for each."
    )
    seeds_per_warm_start: Annotated[int, Field(ge=1)] | None = setting(
        default=None,
        help=(
            "So many seeds share a warm start, reward model and problems: seed s those made with run.seed + s // this "
            "(unless task.seed fixes the problems). null: all share those of run.seed."
        ),
    )
    arms_at: dict[str, list[str]] = setting(
        default_factory=dict, help="Arm to the levels it runs at, where these are not all."
    )
    baseline: str = setting(default="grpo", help="The arm that every difference is taken to.")
    oracle: str | None = setting(
        default="oracle", help="The arm whose difference to the baseline is the headroom; null: none."
    )
    primary: list[PrimaryComparison] = setting(
        default_factory=list, help="Comparisons chosen beforehand; the others are exploratory."
    )
    metric: Literal["accuracy", "reward", "gold_utility"] = setting(default="accuracy", help="What the table compares.")
    last_evaluations: Annotated[int, Field(ge=1)] = setting(
        default=5, help="The final score is the mean over so many last evaluations."
    )
    workers: Annotated[int, Field(ge=1, le=1024)] | None = setting(
        default=None, help="Runs at a time, a process each; null: as many as the machine has cores."
    )
    keep_runs: bool = setting(default=False, help="Keep the run folders (rollouts, checkpoints).")

    @property
    def control(self) -> str | None:
        """The arm that replaces by the number of pairs alone, told by its curator; None: there is none."""
        controls = (name for name, arm in self.arms.items() if (arm.get("curator") or {}).get("type") == "pair_count")
        return next(controls, None)

    @property
    def corruption(self) -> dict[str, dict[str, float]]:
        """Share of corrupted rewards by level and kind; kinds that are 0 are left out."""
        base = {kind: getattr(self.run.reward, kind) for kind in KINDS}
        rewards = {name: {**base, **(level.get("reward") or {})} for name, level in self.levels.items()}
        return {name: {kind: reward[kind] for kind in KINDS if reward[kind]} for name, reward in rewards.items()}

    @property
    def updates_per_generation(self) -> float | None:
        """By TRL's rules and this project's default of two steps; None where it is unknown."""
        grpo = self.run.grpo
        accumulation, steps = grpo.get("gradient_accumulation_steps"), grpo.get("steps_per_generation")
        size, batch = grpo.get("per_device_train_batch_size"), grpo.get("generation_batch_size")
        if steps is None and batch is not None:
            if size is None:
                return None
            steps = batch / size
        updates: float = (steps or accumulation or 2) * (grpo.get("num_iterations") or 1) / (accumulation or 1)
        return updates

    @property
    def zero_by_construction(self) -> bool:
        """Whether KL and clip fraction can be nothing but zero: each batch is used for a single update."""
        return self.updates_per_generation is not None and self.updates_per_generation <= 1

    def rate(self, level: str) -> float:
        """Share of corrupted rewards at a level, all kinds together; NaN where unknown."""
        shares = self.corruption.get(level)
        return math.nan if shares is None else float(sum(shares.values()))

    def is_primary(self, arm: str, against: str) -> bool:
        """Whether this comparison was chosen beforehand."""
        return any((item.arm, item.against) == (arm, against) for item in self.primary)

    def role(self, arm: str) -> str:
        """ "baseline", "primary", "control", "oracle", "bound" (it changes the corruption) or "exploratory"."""
        if any(item.arm == arm for item in self.primary):
            return "primary"
        roles = {self.baseline: "baseline", self.control: "control", self.oracle: "oracle"}
        return roles.get(arm) or ("bound" if self.arms.get(arm, {}).get("reward") else "exploratory")

    def planned(self, arm: str, level: str) -> bool:
        """Whether the arm is to run at the level."""
        return level in self.arms_at.get(arm, self.levels)
