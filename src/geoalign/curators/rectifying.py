"""From scores to a curation: flagging the sparse upper tail and putting stable rows in its place.

GeoAlign and its controls share this, so that they differ in nothing but the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from geoalign.curators.curator import Curator, reward_weights
from geoalign.method.density import Tail, cap_highest, sparse_tail
from geoalign.method.groups import GroupedRows, in_input_order
from geoalign.method.rectification import amplify, replace, rows_with_partner
from geoalign.method.ties import tied_rewards
from geoalign.settings import OpenShare, PositiveShare, Several, setting, settings
from geoalign.types import Curation, CurationDetails, Rollouts

Strategy = Literal["replace", "zero_weight", "drop", "amplify"]


@settings
class TailConfig:
    """What is anomalous by the density of the scores, and what happens to it."""

    alpha: OpenShare = setting(default=0.05, help="A score is anomalous if its density is below alpha times the peak.")
    tail: Literal["pointwise", "first_crossing"] = setting(
        default="pointwise",
        help="Flag what lies above the last score that is not sparse, or everything beyond the first sparse point.",
    )
    max_fraction: PositiveShare | None = setting(
        default=0.2, help="At most this share of the scored rollouts is anomalous; null: no cap."
    )
    min_scores: Several = setting(default=32, help="With fewer scored rollouts nothing is flagged.")
    strategy: Strategy = setting(default="replace", help="What happens to anomalous rollouts.")


def declare_strategy(curator: Curator[Any], strategy: Strategy) -> None:
    """Declares what a curator does to anomalous rows: it changes rows, or weighs them."""
    curator.acts_on = ("weights",) if strategy == "zero_weight" else ("rows",)
    curator.drops_rows = strategy == "drop"


@dataclass(frozen=True, eq=False)
class Flags:
    """What a criterion says of B rows in sorted order."""

    suspect: Bool[Tensor, " b"]  # beyond the criterion
    anomalous: Bool[Tensor, " b"]  # those of them within the cap
    stable: Bool[Tensor, " b"]  # known to be none: the donors
    tail: Tail | None = None  # the density behind it; None where there is none
    too_few: bool = False  # scores to judge by
    zero_spread: bool = False  # the scores were too much alike to have a density

    @classmethod
    def of(cls, flagged: Bool[Tensor, " b"], judged: Bool[Tensor, " b"], *, zero_spread: bool = False) -> Flags:
        """Flags without a cap: what is judged and not flagged is stable."""
        return cls(suspect=flagged, anomalous=flagged, stable=judged & ~flagged, zero_spread=zero_spread)


def flag_sparse_tail(scores: Float[Tensor, " b"], config: TailConfig) -> Flags:
    """The density criterion on the scores that are not NaN; nothing is flagged with fewer than `min_scores` of them.

    A suspect that the cap spares stays in its place, but is never a donor.
    """
    scored = ~scores.isnan()
    values = scores[scored]
    too_few = len(values) < config.min_scores
    sparse = None if too_few else sparse_tail(values, alpha=config.alpha, tail=config.tail)
    suspect, anomalous = torch.zeros_like(scored), torch.zeros_like(scored)
    if sparse is not None:
        flagged = sparse.flagged.to(values.device)
        suspect[scored] = flagged
        anomalous[scored] = cap_highest(values, flagged, config.max_fraction)
    return Flags(suspect, anomalous, scored & ~suspect, sparse, too_few, sparse is None and not too_few)


def rectify(
    rollouts: Rollouts,
    rows: GroupedRows,
    scores: Float[Tensor, " b"],
    flags: Flags,
    *,
    strategy: Strategy,
    generator: Generator,
    metrics: dict[str, float],
    observing: bool = False,
    details: CurationDetails | None = None,
) -> Curation:
    """The curation that replaces, weighs, drops or amplifies the anomalous rows of a batch.

    Args:
        rows: the canonical order of the batch, on the device of `scores`, which are in this order, as are the flags.
        observing: report what was flagged, but change nothing.
        metrics: what the curator knows; those of the flags and of the rectification are added.
    """
    rewards = tied_rewards(rollouts.rewards.to(scores.device)[rows.order], rows.group)
    source, weights, without = _placed(rollouts, rows, rewards, flags, None if observing else strategy, generator)
    metrics = {
        "scored_rollouts": float((~scores.isnan()).sum()),
        **metrics,
        "threshold": flags.tail.threshold if flags.tail else torch.nan,
        "suspects": float(flags.suspect.sum()),
        "anomalous": float(flags.anomalous.sum()),
        "too_few_scores": float(flags.too_few),
        "zero_spread": float(flags.zero_spread),
        "replaced": float((source != torch.arange(len(rollouts), device=source.device)).sum()),
        "zero_weighted": float(((weights == 0) & ~rewards[source].isnan()).sum()),
        "groups_without_donor": float(without),
        "observed_only": float(observing),
    }
    back = in_input_order(rows, rollouts.rewards.device)
    source, weights = back(rows.order[source]), back(weights)
    if strategy == "drop" and not observing:
        # Rows that could not be scored by the reward stay, with weight 0: dropping is for the anomalous.
        kept = (weights > 0) | rollouts.rewards.isnan()
        source, weights = source[kept], weights[kept]
    return Curation(
        source=source,
        rewards=rollouts.rewards[source],
        weights=weights,
        scores=back(scores),
        anomalous=back(flags.anomalous),
        metrics=metrics,
        details=details,
    )


def _placed(
    rollouts: Rollouts,
    rows: GroupedRows,
    rewards: Float[Tensor, " b"],
    flags: Flags,
    strategy: Strategy | None,
    generator: Generator,
) -> tuple[Tensor, Tensor, int]:
    """[B] source and [B] weight in sorted order, and the number of groups without a donor."""
    source = torch.arange(len(rollouts), device=rewards.device)
    spared = torch.ones_like(rewards, dtype=torch.float32)
    without, donor_ok = 0, rollouts.donor_ok
    fit = torch.ones_like(flags.stable) if donor_ok is None else donor_ok.to(rewards.device)[rows.order]
    if strategy == "replace":
        source, without = replace(rewards, rows.group, flags.anomalous, flags.stable & fit, generator)
    elif strategy == "amplify":
        source, without = amplify(rows.group, flags.anomalous & fit, flags.stable, generator)
    elif strategy is not None:
        hit, without = rows_with_partner(rows.group, flags.anomalous, flags.stable)
        spared[hit] = 0
    return source, reward_weights(rewards[source]) * spared, without
