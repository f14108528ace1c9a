"""GeoAlign, and what the authors' released code does of it."""

from geoalign.curators.geoalign.curator import GeoAlign, GeoAlignConfig

__all__ = ["GeoAlign", "GeoAlignConfig"]
