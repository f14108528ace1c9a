"""Typed settings; importing them loads no torch."""

from geoalign.config.curators import (
    CURATOR_CONFIGS,
    GeoAlignConfig,
    GeoAlignReleasedConfig,
    IdentityConfig,
    ProjectorConfig,
)

__all__ = ["CURATOR_CONFIGS", "GeoAlignConfig", "GeoAlignReleasedConfig", "IdentityConfig", "ProjectorConfig"]
