"""Controls: GeoAlign's rectification, driven by something that is no geometry."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator
from geoalign.curators.batches import canonical_rows
from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.curators.precision import full_precision
from geoalign.curators.rectifying import Flags, TailConfig, flag_sparse_tail, rectify
from geoalign.errors import ConfigError
from geoalign.method.advantages import group_advantages
from geoalign.method.consensus import pair_count
from geoalign.method.groups import GroupedRows
from geoalign.method.pairs import preference_pairs
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class RewardDistanceConfig(TailConfig):
    """The settings of `RewardDistance`: those of GeoAlign that have to do with flagging and rectification."""

    type: ClassVar[str] = "reward_distance"


@settings
class PairCountConfig(TailConfig):
    """The settings of `PairCount`: those of GeoAlign that have to do with pairs, flagging and rectification."""

    type: ClassVar[str] = "pair_count"

    top_m: Annotated[int, Field(ge=1)] | None = setting(
        default=None, help="Pair only the m best with the m worst rollouts of a group; null: all pairs."
    )


@settings
class RandomConfig:
    """The settings of `Random`: those of the GeoAlign that says how many rollouts are flagged, and what follows."""

    type: ClassVar[str] = "random"

    geoalign: GeoAlignConfig = setting(
        default_factory=GeoAlignConfig, help="The GeoAlign whose number of flagged rollouts is drawn."
    )


@settings
class OracleConfig:
    """The settings of `Oracle`."""

    type: ClassVar[str] = "oracle"

    strategy: Literal["replace", "zero_weight", "drop", "amplify"] = setting(
        default="replace", help="What happens to corrupted rollouts."
    )


class PairCount(Curator[PairCountConfig]):
    """GeoAlign with the number of strict pairs that a rollout is in for its score; no hidden state is looked at.

    A cumulative GDI grows with that number, so this says what is left of GeoAlign without its geometry. Rollouts in no
    pair are unscored and unchanged.
    """

    config_class = PairCountConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Flags the sparse upper tail of the pair counts and rectifies it as GeoAlign does."""
        with full_precision(rollouts):
            rows = canonical_rows(rollouts)
            pairs = preference_pairs(rollouts.rewards[rows.order], rows, top_m=self.config.top_m, generator=generator)
            counts = pair_count(pairs, len(rollouts))
            scores = counts.masked_fill(counts == 0, torch.nan)
            return _rectified(rollouts, rows, scores, self.config, generator, pairs=float(len(pairs)))


class RewardDistance(Curator[RewardDistanceConfig]):
    """GeoAlign with a reward's distance to its group's mean, |r - mean|, for its score; no hidden state is looked at.

    The control for continuous rewards, where every rollout of a group is in equally many pairs and the pair count says
    nothing. Groups of one or of equal rewards are unscored and unchanged.
    """

    config_class = RewardDistanceConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Flags the sparse upper tail of the distances and rectifies it as GeoAlign does."""
        with full_precision(rollouts):
            rows = canonical_rows(rollouts)
            rewards = rollouts.rewards[rows.order]
            distance = group_advantages(rewards, rows.group, scale="none").abs().float()
            unequal = torch.zeros(len(rows.sizes), dtype=torch.bool, device=rewards.device)
            unequal[rows.group[distance > 0]] = True
            scores = distance.masked_fill(~unequal[rows.group] | rewards.isnan(), torch.nan)
            return _rectified(rollouts, rows, scores, self.config, generator)


class Random(Curator[RandomConfig]):
    """Flags as many rollouts as GeoAlign does in the same step, drawn uniformly from those that it scores.

    It holds a whole GeoAlign, whose state is its own, and rectifies by the same strategy. Its scores are the ranks of
    the draw. Needs `hidden`.
    """

    config_class = RandomConfig
    requires = ("hidden",)

    def __init__(self, config: RandomConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._geoalign = GeoAlign(self.config.geoalign)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Asks GeoAlign how many, draws them, and rectifies."""
        rollouts.require("hidden", by="Random")
        asked = self._geoalign.curate(rollouts, generator=generator)
        rows = canonical_rows(rollouts)
        scored = ~asked.scores[rows.order.to(asked.scores.device)].isnan()
        count = int(scored.sum())
        ranks = torch.randperm(count, generator=generator).to(scored.device)
        scores = torch.full((len(rollouts),), torch.nan, device=scored.device)
        scores[scored] = (ranks + 1).float() / max(count, 1)
        drawn = torch.zeros_like(scored)
        drawn[scored] = ranks >= count - int(asked.anomalous.sum())
        curation = rectify(
            rollouts,
            rows,
            scores,
            Flags(suspect=drawn, anomalous=drawn, stable=scored & ~drawn),
            strategy=self.config.geoalign.strategy,
            observing=asked.metrics["observed_only"] == 1,
            generator=generator,
            metrics=asked.metrics,
        )
        unchanged = {name: asked.metrics[name] for name in ("too_few_scores", "zero_spread")}
        return curation.with_metrics(**unchanged, geoalign_replaced=asked.metrics["replaced"])

    def state_dict(self) -> dict[str, Any]:
        """The state of the GeoAlign inside."""
        return {"geoalign": self._geoalign.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`."""
        if set(state) != {"geoalign"}:
            raise ConfigError(f"Random state: expected the key geoalign, got {sorted(state)}")
        self._geoalign.load_state_dict(state["geoalign"])


class Oracle(Curator[OracleConfig]):
    """Rectifies exactly the rollouts whose reward differs from the true one, without any cap: the most one can win.

    Needs `true_rewards`. A corrupted row's score is the size of its corruption. A group with no true reward left stays
    as it is and is counted; a row whose reward or true reward is unknown is neither replaced nor a donor.
    """

    config_class = OracleConfig
    requires = ("true_rewards",)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Compares the rewards and rectifies."""
        rollouts.require("true_rewards", by="Oracle")
        assert rollouts.true_rewards is not None
        rows = canonical_rows(rollouts)
        rewards = rollouts.rewards[rows.order]
        true = rollouts.true_rewards.to(rewards)[rows.order]
        known = ~rewards.isnan() & ~true.isnan()
        corrupted = known & (rewards != true)
        return rectify(
            rollouts,
            rows,
            (rewards - true).abs().float(),
            Flags(suspect=corrupted, anomalous=corrupted, stable=known & ~corrupted),
            strategy=self.config.strategy,
            observing=False,
            generator=generator,
            metrics={
                "scored_rollouts": float(known.sum()),
                "unscored_rewards": float(rollouts.rewards.isnan().sum()),
            },
        )


def _rectified(
    rollouts: Rollouts,
    rows: GroupedRows,
    scores: Float[Tensor, " b"],
    config: TailConfig,
    generator: torch.Generator | None,
    **metrics: float,
) -> Curation:
    """Flags the sparse upper tail of the scores ([B] in sorted order) and rectifies it."""
    flags = flag_sparse_tail(scores, config)
    scored = ~scores.isnan()
    return rectify(
        rollouts,
        rows,
        scores,
        flags,
        strategy=config.strategy,
        observing=False,
        generator=generator,
        metrics={
            **metrics,
            "scored_groups": float(len(rows.group[scored].unique_consecutive())),
            "scored_rollouts": float(scored.sum()),
            "unscored_rewards": float(rollouts.rewards.isnan().sum()),
        },
    )
