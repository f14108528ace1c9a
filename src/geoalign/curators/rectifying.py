"""From scores to a curation: flagging the sparse upper tail and putting stable rows in its place.

GeoAlign and its controls share this, so that they differ in nothing but the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from geoalign.curators.curator import Curator, reward_weights
from geoalign.method.density import Tail, cap_highest, sparse_tail
from geoalign.method.groups import GroupedRows, in_input_order
from geoalign.method.rectification import amplify, replace, rows_with_partner
from geoalign.method.ties import tied_rewards
from geoalign.settings import OpenShare, PositiveShare, Several, setting, settings
from geoalign.types import Curation, Rollouts

Strategy = Literal["replace", "zero_weight", "drop", "amplify"]


@settings
class TailConfig:
    """What is anomalous by the density of the scores, and what happens to it."""

    alpha: OpenShare = setting(default=0.05, help="A score is anomalous if its density is below alpha times the peak.")
    max_fraction: PositiveShare | None = setting(
        default=0.2, help="At most this share of the scored rollouts is anomalous; null: no cap."
    )
    min_scores: Several = setting(default=32, help="With fewer scored rollouts nothing is flagged.")
    strategy: Strategy = setting(default="replace", help="What happens to anomalous rollouts.")


def declare_strategy(curator: Curator[Any], strategy: Strategy) -> None:
    """Declares what a curator does to anomalous rows: it moves or drops rows, or weighs them."""
    curator.acts_on = ("weights",) if strategy == "zero_weight" else ("rows",)
    curator.drops_rows = strategy == "drop"


@dataclass(frozen=True, eq=False)
class Flags:
    """What a criterion says of B rows in sorted order.

    Attributes:
        suspect: [B] beyond the criterion.
        anomalous: [B] the suspects that are acted on: all of them, or the highest up to a cap.
        stable: [B] judged, and no suspect: the donors.
        tail: the density behind it; None where there is none.
        too_few: whether there were too few scores to judge by.
        zero_spread: whether the scores were too much alike to have a density.
    """

    suspect: Bool[Tensor, " b"]
    anomalous: Bool[Tensor, " b"]
    stable: Bool[Tensor, " b"]
    tail: Tail | None = None
    too_few: bool = False
    zero_spread: bool = False

    @classmethod
    def without_cap(
        cls, flagged: Bool[Tensor, " b"], judged: Bool[Tensor, " b"], *, zero_spread: bool = False
    ) -> Flags:
        """Flags without a cap: what is judged and not flagged is stable."""
        return cls(suspect=flagged, anomalous=flagged, stable=judged & ~flagged, zero_spread=zero_spread)


def flag_sparse_tail(scores: Float[Tensor, " b"], config: TailConfig) -> Flags:
    """The density criterion on the scores that are not NaN; nothing is flagged with fewer than `min_scores` of them.

    A suspect that the cap spares stays in its place, but is never a donor.
    """
    scored = ~scores.isnan()
    values = scores[scored]
    too_few = len(values) < config.min_scores
    tail = None if too_few else sparse_tail(values, alpha=config.alpha)
    suspect = torch.zeros_like(scored)
    anomalous = torch.zeros_like(scored)
    if tail is not None:
        in_tail = tail.flagged.to(values.device)
        suspect[scored] = in_tail
        anomalous[scored] = cap_highest(values, in_tail, config.max_fraction)
    return Flags(
        suspect=suspect,
        anomalous=anomalous,
        stable=scored & ~suspect,
        tail=tail,
        too_few=too_few,
        zero_spread=tail is None and not too_few,
    )


def rectify(
    rollouts: Rollouts,
    rows: GroupedRows,
    scores: Float[Tensor, " b"],
    flags: Flags,
    *,
    strategy: Strategy | None,
    generator: Generator,
    metrics: dict[str, float],
) -> Curation:
    """The curation that replaces, weighs, drops or amplifies the anomalous rows of a batch.

    Args:
        rows: the canonical order of the batch, on the device of `scores`, which are in this order, as are the flags.
        strategy: what happens to anomalous rows; None: nothing, they are only reported.
        metrics: what the curator knows; those of the flags and of the rectification are added.
    """
    rewards = tied_rewards(rollouts.rewards.to(scores.device)[rows.order], rows.group)
    placed = _placed(rollouts, rows, rewards, flags, strategy, generator)
    own_place = torch.arange(len(rollouts), device=rewards.device)
    weights = reward_weights(rewards[placed.source]).masked_fill(placed.weightless, 0)
    metrics = {
        "scored_rollouts": float((~scores.isnan()).sum()),
        **metrics,
        "threshold": flags.tail.threshold if flags.tail else torch.nan,
        "suspects": float(flags.suspect.sum()),
        "too_few_scores": float(flags.too_few),
        "zero_spread": float(flags.zero_spread),
        "replaced": float((placed.source != own_place).sum()),
        "zero_weighted": float((placed.weightless & ~rewards.isnan()).sum()),
        "groups_without_donor": float(placed.groups_without_donor),
    }
    back = in_input_order(rows, rollouts.rewards.device)
    source = back(rows.order[placed.source])
    weights = back(weights)
    if strategy == "drop":
        # Rows that could not be scored by the reward stay, with weight 0: dropping is for the anomalous.
        kept = (weights > 0) | rollouts.rewards.isnan()
        source = source[kept]
        weights = weights[kept]
    return Curation(
        source=source,
        rewards=rollouts.rewards[source],
        weights=weights,
        scores=back(scores),
        anomalous=back(flags.anomalous),
        metrics=metrics,
    )


@dataclass(frozen=True, eq=False)
class _Placed:
    """Which row stands in each place after a rectification, in sorted order.

    Attributes:
        source: [B] the row that stands in each place.
        weightless: [B] the rows that lose their weight: those that are to be dropped, too.
        groups_without_donor: in how many groups an anomalous row found no stable one.
    """

    source: Int[Tensor, " b"]
    weightless: Bool[Tensor, " b"]
    groups_without_donor: int


def _placed(
    rollouts: Rollouts,
    rows: GroupedRows,
    rewards: Float[Tensor, " b"],
    flags: Flags,
    strategy: Strategy | None,
    generator: Generator,
) -> _Placed:
    """Acts on the flags; a row that may not be a donor (`donor_ok` False) never takes the place of another row."""
    own_place = torch.arange(len(rollouts), device=rewards.device)
    none = torch.zeros_like(flags.anomalous)
    may_move = ~none
    if rollouts.donor_ok is not None:
        may_move = rollouts.donor_ok.to(rewards.device)[rows.order]
    if strategy is None:
        return _Placed(own_place, none, 0)
    if strategy == "replace":
        source, without = replace(rewards, rows.group, flags.anomalous, flags.stable & may_move, generator)
        return _Placed(source, none, without)
    if strategy == "amplify":
        source, without = amplify(rows.group, flags.anomalous & may_move, flags.stable, generator)
        return _Placed(source, none, without)
    weightless, without = rows_with_partner(rows.group, flags.anomalous, flags.stable)
    return _Placed(own_place, weightless, without)
