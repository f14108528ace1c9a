"""Typed settings; importing them loads no torch."""

from geoalign.config.baselines import (
    CPPOConfig,
    DAPOFilterOnlyConfig,
    GFPOConfig,
    MCGRPOConfig,
    PARConfig,
    PFPPOBestRandomConfig,
    PFPPOBestWorstConfig,
    PFPPOConfig,
    PODSConfig,
    QuantileBaselineConfig,
    SeedGRPOConfig,
    SGRPOConfig,
)
from geoalign.config.chain import ChainConfig
from geoalign.config.controls import OracleConfig, PairCountConfig, RandomConfig, RewardDistanceConfig
from geoalign.config.curator_types import CURATOR_CONFIGS
from geoalign.config.curators import (
    GeoAlignConfig,
    GeoAlignReleasedConfig,
    IdentityConfig,
    ProjectorConfig,
    settings,
)

__all__ = [
    "CURATOR_CONFIGS",
    "CPPOConfig",
    "ChainConfig",
    "DAPOFilterOnlyConfig",
    "GFPOConfig",
    "GeoAlignConfig",
    "GeoAlignReleasedConfig",
    "IdentityConfig",
    "MCGRPOConfig",
    "OracleConfig",
    "PARConfig",
    "PFPPOBestRandomConfig",
    "PFPPOBestWorstConfig",
    "PFPPOConfig",
    "PODSConfig",
    "PairCountConfig",
    "ProjectorConfig",
    "QuantileBaselineConfig",
    "RandomConfig",
    "RewardDistanceConfig",
    "SGRPOConfig",
    "SeedGRPOConfig",
    "settings",
]
