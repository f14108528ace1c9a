"""The settings of a comparison: one base run, the arms laid over it, corruption levels, seeds. No torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from geoalign.lab.config.run import RunConfig
from geoalign.settings import setting, settings

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

    run: RunConfig = setting(default_factory=RunConfig, help="The base run.")
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
