"""The settings of curators, and what all typed settings share; importing them loads no torch."""

from geoalign.settings.baselines import (
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
from geoalign.settings.chain import ChainConfig
from geoalign.settings.controls import OracleConfig, PairCountConfig, RandomConfig, RewardDistanceConfig
from geoalign.settings.curator_types import CURATOR_CONFIGS
from geoalign.settings.curators import (
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
