"""What a comparison set out to do: the arms and their parts, the levels, the seeds, the metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from geoalign.errors import RunFolderError

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
        found = self.corruption.get(level)
        return math.nan if found is None else float(sum(found.values()))

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
    """The plan that `folder`/compare.yaml holds.

    Raises:
        RunFolderError: it is unreadable, or a part that the analysis needs is not what it should be.
    """
    path = Path(folder) / "compare.yaml"
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RunFolderError(f"compare.yaml: expected a whole file, got {error} in {path}") from error
    if not isinstance(data, dict):
        raise RunFolderError(f"compare.yaml: expected settings, got {type(data).__name__} in {path}")
    try:
        return plan_of(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"compare.yaml: expected the settings of a comparison, got {error!r} in {path}") from error


def plan_of(data: Mapping[str, Any]) -> Plan:
    """The plan from the plain settings of a comparison, resolved (as compare.yaml holds them).

    Parts are told by their settings, not by their names: the control is the arm whose curator is `pair_count`, a
    bound is an arm that changes `reward`.
    """
    arms: Mapping[str, Any] = data["arms"]
    levels: Mapping[str, Any] = data["levels"]
    if data.get("metric", "accuracy") not in METRICS:
        raise ValueError(f"metric {data['metric']!r}, none of {', '.join(METRICS)}")
    run = data.get("run") or {}
    reward = run.get("reward") or {}
    controls = [name for name, value in arms.items() if _section(value, "curator").get("type") == PAIR_COUNT]
    return Plan(
        metric=data.get("metric", "accuracy"),
        arms=tuple(str(name) for name in arms),
        levels=tuple(str(name) for name in levels),
        seeds=tuple(int(seed) for seed in data["seeds"]),
        arms_at={str(arm): tuple(names) for arm, names in (data.get("arms_at") or {}).items()},
        primary=tuple((item["arm"], item["against"]) for item in data.get("primary") or ()),
        baseline=str(data.get("baseline", "grpo")),
        control=controls[0] if controls else None,
        oracle=data.get("oracle"),
        bounds=tuple(name for name, value in arms.items() if _section(value, "reward")),
        corruption={name: corruption({**reward, **_section(value, "reward")}) for name, value in levels.items()},
        updates_per_generation=_updates(run.get("grpo") or {}),
        last=int(data.get("last_evaluations", 5)),
    )


def corruption(reward: Mapping[str, Any]) -> dict[str, float]:
    """Share of corrupted rewards by kind, from the resolved `reward` section: kinds that are 0 are left out."""
    return {kind: float(reward[kind]) for kind in KINDS if reward.get(kind)}


def _section(settings: Any, name: str) -> Mapping[str, Any]:
    found = settings.get(name) if isinstance(settings, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _updates(grpo: Mapping[str, Any]) -> float | None:
    """Updates per generation by TRL's rules and this project's default of two steps; None where it cannot be told."""
    accumulation = grpo.get("gradient_accumulation_steps")
    steps = grpo.get("steps_per_generation")
    if steps is None and grpo.get("generation_batch_size") is not None:
        size = grpo.get("per_device_train_batch_size")
        steps = grpo["generation_batch_size"] / size if size else None
        if steps is None:
            return None
    elif steps is None:
        steps = accumulation or 2
    return float(steps) * float(grpo.get("num_iterations") or 1) / float(accumulation or 1)
