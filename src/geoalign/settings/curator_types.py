"""The settings class of every built-in curator, by the name that `type:` picks in YAML."""

from __future__ import annotations

from geoalign.settings.baselines import (
    CPPOConfig,
    DAPOFilterOnlyConfig,
    GFPOConfig,
    MCGRPOConfig,
    PARConfig,
    PFPPOBestRandomConfig,
    PFPPOBestWorstConfig,
    PODSConfig,
    QuantileBaselineConfig,
    SeedGRPOConfig,
    SGRPOConfig,
)
from geoalign.settings.chain import ChainConfig
from geoalign.settings.controls import OracleConfig, PairCountConfig, RandomConfig, RewardDistanceConfig
from geoalign.settings.curators import GeoAlignConfig, GeoAlignReleasedConfig, IdentityConfig

CURATOR_CONFIGS: dict[str, type] = {
    "grpo": IdentityConfig,
    "geoalign": GeoAlignConfig,
    "geoalign_released": GeoAlignReleasedConfig,
    "pf_ppo_br": PFPPOBestRandomConfig,
    "pf_ppo_bw": PFPPOBestWorstConfig,
    "par": PARConfig,
    "pods": PODSConfig,
    "seed_grpo": SeedGRPOConfig,
    "s_grpo": SGRPOConfig,
    "dapo_filter_only": DAPOFilterOnlyConfig,
    "cppo": CPPOConfig,
    "gfpo": GFPOConfig,
    "mc_grpo": MCGRPOConfig,
    "quantile": QuantileBaselineConfig,
    "pair_count": PairCountConfig,
    "reward_distance": RewardDistanceConfig,
    "random": RandomConfig,
    "oracle": OracleConfig,
    "chain": ChainConfig,
}
