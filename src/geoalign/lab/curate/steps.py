"""One step of a dump: the batch that a curator reads, and its decision in the numbers of the whole output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.placement import Placement, place
from geoalign.boxed import boxed_answer
from geoalign.curators.base import Curator
from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.curators.registry import CURATORS
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, GeoAlignError
from geoalign.lab.analysis.consensus import CHANCE
from geoalign.lab.analysis.detection import pair_counts
from geoalign.lab.curate.denoised import without_states
from geoalign.lab.dumps.rows import Row
from geoalign.method.advantages import group_advantages
from geoalign.method.intervals import clustered_proportion
from geoalign.types import Curation, CurationDetails, Rollouts, response_keys

# What can be had from a reward and a response alone.
_ALWAYS = ("answers", "advantages", "ids", "prompt_keys")


@dataclass(frozen=True, eq=False)
class CuratedStep:
    """One step after curation.

    Attributes:
        step: number of the dump, or the step that it names.
        rows: its rollouts.
        members: their indices among the file's rollouts.
        groups: the number of each one's group, unique over all steps.
        curation: what the curator said.
        placement: the same in the slots of the input.
        group_pairs: [B] pairs of each rollout's group.
        probability_wrong: [B] of each reward; `denoised`: [B] the denoised one. None for other curators.
    """

    step: int
    rows: Sequence[Row]
    members: Sequence[int]
    groups: Sequence[int]
    curation: Curation
    placement: Placement
    group_pairs: np.ndarray
    probability_wrong: Float[Tensor, " b"] | None = None
    denoised: Float[Tensor, " b"] | None = None

    @property
    def details(self) -> CurationDetails | None:
        """Pairs and density, for curators that have them."""
        return self.curation.details


def available_fields(rows: Sequence[Row], *, hidden: bool, lengths: bool) -> set[str]:
    """The optional fields of `Rollouts` that these rows bring; `lengths`: a model's tokenizer counts them."""
    available = set(_ALWAYS)
    if hidden:
        available.add("hidden")
    if lengths or all(row.tokens is not None for row in rows):
        available.add("lengths")
    if any(row.true_reward is not None for row in rows):
        available.add("true_rewards")
    if any(row.truncated is not None for row in rows):
        available.add("donor_ok")
    return available


def check_curator(name: str, curator: Curator, available: set[str]) -> None:
    """Raises ConfigError, with the curators that can be used, unless the fields available are enough for this one."""
    missing = [need for need in curator.requires if need not in available]
    if curator.library_only is not None:
        raise ConfigError(f"curator: {name} is for the library alone: {curator.library_only}")
    if not missing:
        return
    needs = {
        "hidden": "hidden states (--hidden FILE or --model ID_OR_PATH)",
        "lengths": "lengths in tokens (--field tokens=NAME or --model ID_OR_PATH)",
        "true_rewards": "true rewards (--field true_reward=NAME)",
    }
    wanted = " and ".join(needs.get(need, f"{need}, which no dump has") for need in missing)
    raise ConfigError(
        f"curator: {name} needs {wanted}, got none; without them --curator takes one of {', '.join(offered(available))}"
    )


def offered(available: set[str]) -> list[str]:
    """The curators, by name, that need no more than these fields."""
    names = []
    for name in CURATORS:
        try:
            curator = CURATORS[name]()
        except (GeoAlignError, TypeError, ImportError):
            continue  # of another package, and with settings that have no default
        # What is offered to those who have no states.
        curator = type(curator)(without_states(curator.config))
        if set(curator.requires) <= available and curator.library_only is None and name not in ("chain", "grpo"):
            names.append(name)
    return names


def given_answer(row: Row) -> str | None:
    """The answer that a response gives: the dump's own field, else the last box; None where there is neither."""
    return boxed_answer(row.response) if row.final_answer is None else row.final_answer


def make_rollouts(
    rows: Sequence[Row],
    groups: Sequence[int],
    curator: Curator,
    *,
    hidden: Float[Tensor, "b d"] | None = None,
) -> Rollouts:
    """The batch of one step, with the optional fields that the curator needs or that say which rows are unfit.

    Args:
        groups: a number for the group of each row.
    """
    rewards = torch.tensor([row.best_reward for row in rows], dtype=torch.float64)
    grouping = torch.tensor(list(groups), dtype=torch.long)
    needs: dict[str, Any] = {"ids": [row.id for row in rows]}
    if "hidden" in curator.requires:
        needs["hidden"] = hidden
    keyed = bool({"hidden", "response_keys"} & set(curator.reads))
    if keyed and all(row.response for row in rows):  # a dump may come without its texts
        needs["response_keys"] = response_keys(row.response for row in rows)
    if "prompt_keys" in curator.requires:
        # The group where a dump has no prompts: in most formats it names one.
        needs["prompt_keys"] = response_keys(row.prompt or row.group for row in rows)
    if all(row.tokens is not None for row in rows):
        needs["lengths"] = torch.tensor([row.tokens for row in rows], dtype=torch.long)
    if any(row.true_reward is not None for row in rows):
        true = [math.nan if row.true_reward is None else row.true_reward for row in rows]
        needs["true_rewards"] = torch.tensor(true, dtype=torch.float64)
    if any(row.label is not None for row in rows):
        needs["trusted"] = torch.tensor([row.label is not None for row in rows])
    if any(row.truncated is not None for row in rows):
        needs["donor_ok"] = torch.tensor([row.truncated is not True for row in rows])
    if "answers" in curator.reads:
        needs["answers"] = [given_answer(row) for row in rows]
    if "advantages" in curator.requires:
        needs["advantages"] = group_advantages(rewards, grouping)
    return Rollouts(rewards=rewards, groups=grouping, **needs)


def curate_step(session: CurationSession, rollouts: Rollouts, *, name: str) -> tuple[Curation, Placement, np.ndarray]:
    """The curation of one step, its placement in the input's slots, and [B] the pairs of each rollout's group."""
    curation = session.curate(rollouts, details=True)
    placement = place(curation, rollouts.groups, by=name)
    return curation, placement, group_pairs(rollouts, curation.details)


def group_pairs(rollouts: Rollouts, details: CurationDetails | None) -> np.ndarray:
    """The pairs that the curator formed; where it does not say, those of different rewards."""
    _, member = torch.unique(rollouts.groups, return_inverse=True)
    groups = int(member.max()) + 1
    if details is not None:
        counts = torch.bincount(member[details.pairs.winner.cpu()], minlength=groups).numpy()
    else:
        # Each pair is counted by both of its rows.
        of_rows = pair_counts(rollouts.rewards.numpy(), member.numpy())
        counts = np.bincount(member.numpy(), weights=of_rows, minlength=groups).astype(np.int64) // 2
    return np.asarray(counts)[member.numpy()]


class ConsensusMeter:
    """Accuracy on groups never trained on, pooled over the steps of one call.

    A GeoAlign judges each step by what it learnt from the ones before. The first has none before it: where no other
    step was judged, its groups are asked by cross-fitting, with a curator of its own.
    """

    def __init__(self, curator: Curator, *, check: bool) -> None:
        self._curator = next((member for member in _members(curator) if isinstance(member, GeoAlign)), None)
        self._check = check
        self._right: list[np.ndarray] = []
        self._total: list[np.ndarray] = []
        self._steps = 0

    def add(self) -> None:
        """Takes how the last call of the curator judged its new groups."""
        if self._curator is None:
            return
        right, total = self._curator.state_dict()["gate"][-1].numpy()
        self._append(right, total)

    @property
    def wants_check(self) -> bool:
        """Whether nothing was judged yet, though a check was asked for."""
        return self._curator is not None and self._check and not self._total

    def cross_fit(self, rollouts: Rollouts, seed: int) -> None:
        """Judges one step by cross-fitting."""
        assert self._curator is not None
        config: GeoAlignConfig = replace(self._curator.config, scoring="cross_fit", observe_only=True)
        other = GeoAlign(config)
        other.curate(rollouts, generator=torch.Generator().manual_seed(seed))
        right, total = other.state_dict()["gate"][-1].numpy()
        self._append(right, total)

    def summary(self) -> dict[str, Any]:
        """The numbers for `summary.json`; no accuracy, but the reason, where nothing could be judged."""
        if self._curator is None:
            return {"new_group_accuracy": None, "reason": "This curator measures no consensus of hidden states."}
        if not self._total:
            reason = "No groups were kept apart to judge a consensus: too few of them have different rewards."
            return {"new_group_accuracy": None, "reason": reason}
        accuracy = clustered_proportion(np.concatenate(self._right), np.concatenate(self._total))
        return {
            "new_group_accuracy": accuracy.estimate,
            "new_group_accuracy_low": accuracy.low,
            "new_group_accuracy_high": accuracy.high,
            "chance_accuracy": CHANCE,
            "level": 0.95,
            "groups": int(sum(len(counts) for counts in self._total)),
            "pairs": int(sum(counts.sum() for counts in self._total)),
            "steps": self._steps,
        }

    def _append(self, right: np.ndarray, total: np.ndarray) -> None:
        if len(total):
            self._right.append(right)
            self._total.append(total)
            self._steps += 1


def _members(curator: Curator) -> list[Curator]:
    members: list[Curator] = [curator]
    for member in getattr(curator, "members", ()):
        members += _members(member)
    return members


def metrics_of(curation: Curation) -> dict[str, float]:
    """The curator's metrics under their names in logs; NaN where undefined."""
    return {f"geoalign/{name}": float(value) for name, value in curation.metrics.items()}


def counts_of(step: CuratedStep) -> dict[str, int]:
    """What became of the rollouts of a step, under the names in `summary.json`."""
    placement, curation = step.placement, step.curation
    pairs = dict(zip(step.groups, step.group_pairs.tolist(), strict=True))
    rewards = torch.tensor([row.reward for row in step.rows], dtype=torch.float64)
    own = rewards[placement.source]
    new = placement.rewards.double()
    shaped = placement.kept & (new != own) & ~(new.isnan() & own.isnan())
    return {
        "rows": len(step.rows),
        "groups": len(pairs),
        "pairs": sum(pairs.values()),
        "scored": int((~curation.scores.isnan()).sum()),
        "flagged": int(curation.anomalous.sum()),
        "replaced": int((placement.kept & placement.replaced).sum()),
        "left_out": int((~placement.kept).sum()),
        "zero_weighted": int((placement.kept & (placement.weights == 0) & ~rewards.isnan()).sum()),
        "changed_rewards": int(shaped.sum()),
        "unscored": int(rewards.isnan().sum()),
        "groups_without_pairs": sum(count == 0 for count in pairs.values()),
    }
