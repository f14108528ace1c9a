"""The settings of the controls: curators that share everything with GeoAlign but the geometry."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from geoalign.settings.curators import GeoAlignConfig, settings


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@settings
class RewardDistanceConfig:
    """The settings of `RewardDistance`: those of GeoAlign that have to do with flagging and rectification."""

    alpha: Annotated[float, Field(gt=0, lt=1)] = field(
        default=0.05, metadata=_help("A score is anomalous where the density falls below alpha times its peak.")
    )
    tail: Literal["pointwise", "first_crossing"] = field(
        default="pointwise",
        metadata=_help("Flag each sparse score right of the mode, or everything beyond the first sparse point."),
    )
    max_fraction: Annotated[float, Field(gt=0, le=1)] | None = field(
        default=0.2, metadata=_help("At most this share of the scored rollouts is anomalous; null: no cap.")
    )
    min_scores: Annotated[int, Field(ge=2)] = field(
        default=32, metadata=_help("With fewer scored rollouts nothing is flagged.")
    )
    strategy: Literal["replace", "zero_weight", "drop", "amplify"] = field(
        default="replace", metadata=_help("What happens to anomalous rollouts.")
    )


@settings
class PairCountConfig(RewardDistanceConfig):
    """The settings of `PairCount`: those of GeoAlign that have to do with pairs, flagging and rectification."""

    top_m: Annotated[int, Field(ge=1)] | None = field(
        default=None, metadata=_help("Pair only the m best with the m worst rollouts of a group; null: all pairs.")
    )


@settings
class RandomConfig:
    """The settings of `Random`: those of the GeoAlign that says how many rollouts are flagged, and what follows."""

    geoalign: GeoAlignConfig = field(
        default_factory=GeoAlignConfig, metadata=_help("The GeoAlign whose number of flagged rollouts is drawn.")
    )


@settings
class OracleConfig:
    """The settings of `Oracle`."""

    strategy: Literal["replace", "zero_weight", "drop", "amplify"] = field(
        default="replace", metadata=_help("What happens to corrupted rollouts.")
    )
