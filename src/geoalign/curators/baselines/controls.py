"""Controls: GeoAlign's rectification, driven by something other than geometry, and other rules without states."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Generator, Tensor

from geoalign.curators.baselines.baseline import Baseline, canonical_rows, groups_of, reweighted, to_device
from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.curators.rectifying import Flags, Strategy, TailConfig, declare_strategy, flag_sparse_tail, rectify
from geoalign.method.advantages import group_advantages
from geoalign.method.consensus import pair_count
from geoalign.method.groups import GroupedRows
from geoalign.method.pairs import preference_pairs
from geoalign.method.ties import tied_rewards
from geoalign.settings import Count, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class RewardDistanceConfig(TailConfig):
    """The settings of `RewardDistance`: those of GeoAlign that have to do with flagging and rectification."""

    type: ClassVar[str] = "reward_distance"


@settings
class PairCountConfig(TailConfig):
    """The settings of `PairCount`: those of GeoAlign that have to do with pairs, flagging and rectification."""

    type: ClassVar[str] = "pair_count"


class PairCount(Baseline[PairCountConfig]):
    """GeoAlign whose score is the number of strict pairs that a rollout is in; hidden states are not used.

    A cumulative GDI grows with that number, so this shows what is left of GeoAlign without its geometry. Rollouts in no
    pair are unscored and unchanged.
    """

    def declare(self) -> None:
        """What happens to flagged rows, and how many scores it takes, are settings."""
        declare_strategy(self, self.config.strategy)
        self.min_scores = self.config.min_scores

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        rows = canonical_rows(rollouts)
        pairs = preference_pairs(rollouts.rewards[rows.order], rows)
        counts = pair_count(pairs, len(rollouts))
        scores = counts.masked_fill(counts == 0, torch.nan)
        return _rectified(rollouts, rows, scores, self.config, generator, pairs=float(len(pairs)))


class RewardDistance(Baseline[RewardDistanceConfig]):
    """GeoAlign whose score is a reward's distance to its group's mean, |r - mean|; hidden states are not used.

    The control for continuous rewards, where every rollout of a group is in equally many pairs and the pair count says
    nothing. Groups of one or of equal rewards are unscored and unchanged.
    """

    def declare(self) -> None:
        """What happens to flagged rows, and how many scores it takes, are settings."""
        declare_strategy(self, self.config.strategy)
        self.min_scores = self.config.min_scores

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        rows = canonical_rows(rollouts)
        rewards = rollouts.rewards[rows.order]
        distance = group_advantages(rewards, rows.group, scale="none").abs().float()
        unequal = torch.zeros(len(rows.sizes), dtype=torch.bool)
        unequal[rows.group[distance > 0]] = True
        scores = distance.masked_fill(~unequal[rows.group] | rewards.isnan(), torch.nan)
        return _rectified(rollouts, rows, scores, self.config, generator)


def _rectified(
    rollouts: Rollouts,
    rows: GroupedRows,
    scores: Float[Tensor, " b"],
    config: TailConfig,
    generator: Generator,
    **metrics: float,
) -> Curation:
    """Flags the sparse upper tail of the scores ([B] in sorted order) and rectifies it."""
    metrics["scored_groups"] = float(len(rows.group[~scores.isnan()].unique_consecutive()))
    flags = flag_sparse_tail(scores, config)
    return rectify(rollouts, rows, scores, flags, strategy=config.strategy, generator=generator, metrics=metrics)


@settings
class RandomConfig:
    """The settings of `Random`: those of the GeoAlign that says how many rollouts are flagged, and what follows."""

    type: ClassVar[str] = "random"

    geoalign: GeoAlignConfig = setting(
        default_factory=GeoAlignConfig, help="The GeoAlign whose number of flagged rollouts is drawn."
    )


class Random(Baseline[RandomConfig]):
    """Flags as many rollouts as GeoAlign does in the same step, drawn uniformly from those that it scores.

    It holds a whole GeoAlign, whose state is its own, and rectifies by the same strategy. Its scores are the ranks of
    the draw. Needs `hidden`; where GeoAlign flags nothing, nothing is drawn.
    """

    requires = ("hidden",)
    optional = ("response_keys",)
    kept = ("geoalign",)
    on_device = True

    def __init__(self, config: RandomConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._geoalign = GeoAlign(self.config.geoalign)

    def declare(self) -> None:
        """Declares what its GeoAlign declares: it acts as often, and on as many rows."""
        declare_strategy(self, self.config.geoalign.strategy)
        self.min_scores = self.config.geoalign.min_scores
        self.pooled_batches = GeoAlign.pooled_batches

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        by_geoalign = to_device(self._geoalign.curate(rollouts, generator=generator), "cpu")
        rollouts = to_device(rollouts, "cpu")
        rows = canonical_rows(rollouts)
        scored = ~by_geoalign.scores[rows.order].isnan()
        count = int(scored.sum())
        ranks = torch.randperm(count, generator=generator)
        scores = torch.full((len(rollouts),), torch.nan, dtype=torch.float32)
        scores[scored] = (ranks + 1).float() / max(count, 1)
        drawn = torch.zeros_like(scored)
        drawn[scored] = ranks >= count - int(by_geoalign.anomalous.sum())
        curation = rectify(
            rollouts,
            rows,
            scores,
            Flags.without_cap(drawn, scored),
            strategy=None if by_geoalign.metrics["gate_closed"] else self.config.geoalign.strategy,
            generator=generator,
            metrics=by_geoalign.metrics,
        )
        return curation.with_metrics(
            too_few_scores=by_geoalign.metrics["too_few_scores"],
            zero_spread=by_geoalign.metrics["zero_spread"],
            geoalign_replaced=by_geoalign.metrics["replaced"],
        )


@settings
class OracleConfig:
    type: ClassVar[str] = "oracle"

    strategy: Strategy = setting(default="replace", help="What happens to corrupted rollouts.")


class Oracle(Baseline[OracleConfig]):
    """Rectifies exactly the rollouts whose reward differs from the true one, without any cap: the most one can win.

    Needs `true_rewards`. A corrupted row's score is the size of its corruption. A group with no true reward left stays
    as it is and is counted; a row whose reward or true reward is unknown is neither replaced nor a donor.
    """

    requires = ("true_rewards",)

    def declare(self) -> None:
        """What happens to corrupted rows is a setting."""
        declare_strategy(self, self.config.strategy)

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        assert rollouts.true_rewards is not None
        rows = canonical_rows(rollouts)
        rewards = rollouts.rewards[rows.order]
        true = rollouts.true_rewards.to(rewards.device)[rows.order]
        # 0.1 in float32 is another number than 0.1 in float64: both are compared as the narrower of the two.
        narrower = min(rewards.dtype, true.dtype, key=lambda dtype: dtype.itemsize)
        rewards = rewards.to(narrower)
        true = true.to(narrower)
        # A reward and its true one, as a group of two: sums made in another order differ by rounding only.
        both = torch.stack([rewards, true], dim=1)
        tied = tied_rewards(both.flatten(), torch.arange(len(rewards)).repeat_interleave(2)).view_as(both)
        wrong_by = (tied[:, 0] - tied[:, 1]).abs()
        flags = Flags.without_cap(wrong_by > 0, ~wrong_by.isnan())
        strategy = self.config.strategy
        return rectify(rollouts, rows, wrong_by.float(), flags, strategy=strategy, generator=generator, metrics={})


@settings
class RankTrimConfig:
    type: ClassVar[str] = "rank_trim"

    m: Count = setting(default=1, help="This many of a group's highest and of its lowest rewards get weight 0.")


class RankTrim(Baseline[RankTrimConfig]):
    """Gives the m highest and the m lowest rewards of each group weight 0; only the order of the rewards is used.

    Rewards that are wrong by far stand at the extremes, so this is the control of every method that finds them there.
    The trimmed rows still enter the mean and the deviation of their group: rewards and advantages of the others stay as
    they are. Of equal rewards those trimmed are told apart by `tie_order`. Groups with fewer than 2m + 2 rewards, in
    which less than a pair would be left, and groups of equal rewards stay whole.
    """

    acts_on = ("weights",)
    scores_rows = False

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        m = self.config.m
        weights = torch.ones(len(rollouts), dtype=torch.float32)
        whole_groups = 0
        for group in groups_of(rollouts):
            if not group.varies or len(group.rows) < 2 * m + 2:
                whole_groups += 1
                continue
            weights[group.rows[:m]] = 0
            weights[group.rows[-m:]] = 0
        metrics = {"trimmed_rows": float((weights == 0).sum()), "whole_groups": float(whole_groups)}
        return reweighted(rollouts, weights, metrics)


# Groups with fewer different rewards are not judged: where rewards have two values every extreme is shared.
_DIFFERENT = 3


def tied_extremes(rewards: Float[Tensor, " n"], keys: Int[Tensor, " n"], tolerance: float) -> Bool[Tensor, " n"] | None:
    """Which of a group's rewards lie at its highest or lowest one together with that of another response.

    A reward lies at an extreme if it is no further from it than `tolerance` times the group's range. None where fewer
    than three rewards differ by more than that: such a group is not judged.

    Args:
        rewards: [N] of one group, ascending, none of them NaN.
        keys: [N] rows of equal number gave the same response.
    """
    if not len(rewards):
        return None
    values = rewards.double()
    reach = tolerance * float(values[-1] - values[0])
    if int((values.diff() > reach).sum()) + 1 < _DIFFERENT:
        return None
    tied = torch.zeros(len(values), dtype=torch.bool)
    for extreme in (values[0], values[-1]):
        near = (values - extreme).abs() <= reach
        if len(keys[near].unique()) > 1:
            tied |= near
    return tied


@settings
class TieDetectorConfig:
    type: ClassVar[str] = "tie_detector"

    tolerance: Annotated[float, Field(ge=0, lt=0.5)] = setting(
        default=1e-3, help="Rewards are equal up to this share of their group's range."
    )
    strategy: Strategy = setting(default="zero_weight", help="What happens to tied rollouts.")


class TieDetector(Baseline[TieDetectorConfig]):
    """Flags the rows whose reward is a group's extreme and also that of a different response; rewards alone decide.

    Rewards of different responses are hardly ever equal by chance where they are continuous. A corruption that sends
    rewards to the opposite extreme of their group makes such ties, so this finds its traces: the control that shows how
    much of what another method finds is due to the kind of corruption. Both sides of a tie are flagged: nothing says
    which is the copy. Scores are 1 for tied rows and 0 for others; groups with fewer than three different rewards,
    binary ones for example, are unscored and unchanged.

    Heeds `response_keys`: without them every row is a response of its own.
    """

    optional = ("response_keys",)

    def declare(self) -> None:
        """What happens to tied rows is a setting."""
        declare_strategy(self, self.config.strategy)

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        rows = canonical_rows(rollouts)
        keys = torch.arange(len(rollouts)) if rollouts.response_keys is None else rollouts.response_keys
        scores = torch.full((len(rollouts),), torch.nan, dtype=torch.float32)
        for group in groups_of(rollouts):
            tied = tied_extremes(group.rewards, keys[group.rows], self.config.tolerance)
            if tied is not None:
                scores[group.rows] = tied.float()
        scores = scores[rows.order]
        flags = Flags.without_cap(scores == 1, ~scores.isnan())
        return rectify(rollouts, rows, scores, flags, strategy=self.config.strategy, generator=generator, metrics={})
