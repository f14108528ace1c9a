"""What a comparison set out to do: the arms and their parts, the levels, the seeds, the metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.json_files import read_yaml

METRICS = {"accuracy": "accuracy", "reward": "reward", "gold_utility": "gold utility"}
KINDS = ("flip", "extremes", "shortcut")
PAIR_COUNT = "pair_count"


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison, as far as its analysis needs it.

    Attributes:
        metric: of the evaluations, the one that is compared: a key of `METRICS`; more is better.
        arms: every planned arm, in the order of the tables.
        levels: every planned level, in the order of the tables.
        seeds: planned seeds.
        arms_at: the levels of an arm that does not run at all of them.
        primary: the comparisons that were fixed beforehand, as (arm, against).
        baseline: the arm that all are compared with.
        control: the arm that replaces by the number of pairs alone; None: there is none.
        oracle: the arm whose difference to the baseline is the headroom; None: there is none.
        bounds: arms that change the corruption instead of the curator, such as the one without any.
        corruption: share of corrupted rewards by level and kind, all kinds that are not 0.
        updates_per_generation: with 1, KL and clip fraction are zero by construction; None: unknown.
        last: evaluations that the final score is the mean of.
    """

    metric: str = "accuracy"
    arms: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    arms_at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    primary: tuple[tuple[str, str], ...] = ()
    baseline: str = "grpo"
    control: str | None = PAIR_COUNT
    oracle: str | None = "oracle"
    bounds: tuple[str, ...] = ("clean",)
    corruption: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    updates_per_generation: float | None = None
    last: int = 5

    @property
    def zero_by_construction(self) -> bool:
        """Whether KL and clip fraction can be nothing but zero: each batch is used for a single update."""
        return self.updates_per_generation is not None and self.updates_per_generation <= 1

    def rate(self, level: str) -> float:
        """Share of corrupted rewards at a level, all kinds together; NaN where unknown."""
        shares = self.corruption.get(level)
        return math.nan if shares is None else float(sum(shares.values()))

    def role(self, arm: str) -> str:
        """ "baseline", "primary", "control", "oracle", "bound" or "exploratory"."""
        if arm in {first for first, _ in self.primary}:
            return "primary"
        roles = {self.baseline: "baseline", self.control: "control", self.oracle: "oracle"}
        return roles.get(arm) or ("bound" if arm in self.bounds else "exploratory")

    def planned(self, arm: str, level: str) -> bool:
        """Whether the arm was to run at the level."""
        return level in self.arms_at.get(arm, self.levels)


def read_plan(folder: Path) -> Plan:
    """The plan that `folder`/compare.yaml holds; RunFolderError where there is none."""
    return plan_of(read_yaml(ComparisonFolder(folder).config)[0])


def plan_of(data: Mapping[str, Any]) -> Plan:
    """The plan from the plain settings of a comparison, resolved (as compare.yaml holds them).

    Parts are recognised by their settings, not by their names: the control is the arm whose curator is `pair_count`, a
    bound is an arm that changes `reward`.
    """
    arms: Mapping[str, Any] = data["arms"]
    levels: Mapping[str, Any] = data["levels"]
    run = data.get("run") or {}
    reward = run.get("reward") or {}
    controls = [name for name, value in arms.items() if _section(value, "curator").get("type") == PAIR_COUNT]
    return Plan(
        metric=data.get("metric", "accuracy"),
        arms=tuple(arms),
        levels=tuple(levels),
        seeds=tuple(data["seeds"]),
        arms_at={arm: tuple(names) for arm, names in (data.get("arms_at") or {}).items()},
        primary=tuple((item["arm"], item["against"]) for item in data.get("primary") or ()),
        baseline=data.get("baseline", "grpo"),
        control=controls[0] if controls else None,
        oracle=data.get("oracle"),
        bounds=tuple(name for name, value in arms.items() if _section(value, "reward")),
        corruption={name: corruption({**reward, **_section(value, "reward")}) for name, value in levels.items()},
        updates_per_generation=_updates(run.get("grpo") or {}),
        last=data.get("last_evaluations", 5),
    )


def corruption(reward: Mapping[str, Any]) -> dict[str, float]:
    """Share of corrupted rewards by kind, from the resolved `reward` section: kinds that are 0 are left out."""
    return {kind: reward[kind] for kind in KINDS if reward.get(kind)}


def _section(settings: Any, name: str) -> Mapping[str, Any]:
    return (settings or {}).get(name) or {}


def _updates(grpo: Mapping[str, Any]) -> float | None:
    """Updates per generation by TRL's rules and this project's default of two steps; None where it is unknown."""
    accumulation, steps, size, batch, iterations = (
        grpo.get(name)
        for name in (
            "gradient_accumulation_steps",
            "steps_per_generation",
            "per_device_train_batch_size",
            "generation_batch_size",
            "num_iterations",
        )
    )
    if steps is None and batch is not None:
        if size is None:
            return None
        return batch / size * (iterations or 1) / (accumulation or 1)
    return (steps or accumulation or 2) * (iterations or 1) / (accumulation or 1)
