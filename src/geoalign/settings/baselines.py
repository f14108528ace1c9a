"""The settings of the curators that GeoAlign is compared with. The GeoAlign paper gives none of these values.

docs/baselines.md says where each default comes from.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from geoalign.settings.curators import settings


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@settings
class PFPPOConfig:
    """The settings of `PFPPO` (arXiv 2409.06957); its two variants stand in the registry under names of their own."""

    variant: Literal["br", "bw"] = field(default="br", metadata=_help("Best and random, or best and worst."))
    mode: Literal["paper", "filter", "reweight", "verl"] = field(
        default="paper",
        metadata=_help("Draws within the group, two rows of the group, or draws over the batch (library only)."),
    )
    draws: Annotated[int, Field(ge=1)] | None = field(
        default=None, metadata=_help("Rows drawn per group in mode 'paper'; null: as many as the group has.")
    )
    weighting: Literal["pow", "max_min", "max_random"] | None = field(
        default=None, metadata=_help("Weights of mode 'verl'; null: max_random for br, max_min for bw.")
    )


@settings
class PFPPOBestRandomConfig(PFPPOConfig):
    """The settings of `pf_ppo_br`."""

    variant: Literal["br"] = field(default="br", metadata=_help("Best and random."))


@settings
class PFPPOBestWorstConfig(PFPPOConfig):
    """The settings of `pf_ppo_bw`."""

    variant: Literal["bw"] = field(default="bw", metadata=_help("Best and worst."))


@settings
class PARConfig:
    """The settings of `PAR` (arXiv 2502.18770)."""

    slope: Annotated[float, Field(gt=0)] = field(default=1.0, metadata=_help("Slope k of the sigmoid."))


@settings
class PODSConfig:
    """The settings of `PODS` (arXiv 2504.13818)."""

    m: Annotated[int, Field(ge=2)] | None = field(
        default=None, metadata=_help("Rollouts kept per group; null: half of it, at least two.")
    )


@settings
class SeedGRPOConfig:
    """The settings of `SeedGRPO` (arXiv 2505.12346)."""

    mode: Literal["code", "paper_linear", "paper_exp"] = field(
        default="code", metadata=_help("How the entropy scales the advantages.")
    )
    entropy: Literal["shannon", "paper"] = field(
        default="shannon", metadata=_help("-sum p log p, or the paper's Eq. 5: the mean of -log p over the clusters.")
    )
    alpha: Annotated[float, Field(ge=0)] | None = field(
        default=None, metadata=_help("Strength; null: 0.0417 for 'code', 0.02 for the paper's modes.")
    )
    mass: Literal["logprobs", "share"] = field(
        default="logprobs", metadata=_help("Weigh rollouts by their mean log-probability, or all alike.")
    )
    clusters: Literal["answers", "hidden"] = field(
        default="answers", metadata=_help("Same final answer, or hidden states within a cosine of each other.")
    )
    threshold: Annotated[float, Field(gt=-1, le=1)] = field(
        default=0.95,
        metadata=_help("Cosine from which two hidden states, less the mean of the batch, belong together."),
    )


@settings
class SGRPOConfig:
    """The settings of `SGRPO` (arXiv 2508.05928)."""

    flip_rate: Annotated[float, Field(ge=0, lt=0.5)] = field(
        default=0.1, metadata=_help("Assumed share p of rewards that are flipped.")
    )


@settings
class DAPOFilterOnlyConfig:
    """The settings of `DAPOFilterOnly` (arXiv 2503.14476): none."""


@settings
class CPPOConfig:
    """The settings of `CPPO` (arXiv 2503.22342)."""

    pruning_rate: Annotated[float, Field(ge=0, lt=1)] = field(
        default=0.5, metadata=_help("Share of each group that is pruned.")
    )


@settings
class GFPOConfig:
    """The settings of `GFPO` (arXiv 2508.09726)."""

    by: Literal["length", "token_efficiency"] = field(
        default="length", metadata=_help("Keep the shortest responses, or those of most reward per token.")
    )
    k: Annotated[int, Field(ge=2)] | None = field(
        default=None, metadata=_help("Rollouts kept per group; null: half of it, at least two.")
    )


@settings
class MCGRPOConfig:
    """The settings of `MCGRPO` (arXiv 2601.22582)."""

    eps: Annotated[float, Field(gt=0)] = field(
        default=1e-3, metadata=_help("Added to the median absolute deviation (the released code's value).")
    )
    zero_mad: Literal["std", "eps"] = field(
        default="std",
        metadata=_help("Scale where the MAD is 0: the standard deviation, or eps alone, as in the released code."),
    )
    drop_median: bool = field(
        default=True, metadata=_help("Leave the median rollout of an odd group out of the update.")
    )


@settings
class QuantileBaselineConfig:
    """The settings of `QuantileBaseline` (arXiv 2509.22611)."""

    quantile: Annotated[float, Field(gt=0, lt=1)] = field(
        default=0.4, metadata=_help("Level K of the quantile that is the baseline.")
    )
    scale: Literal["std", "none"] = field(
        default="std", metadata=_help("Divide by the group's standard deviation, or by nothing.")
    )
