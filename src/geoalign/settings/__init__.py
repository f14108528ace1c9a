"""What all typed settings share; importing it loads no torch."""

from geoalign.settings.typed import setting, settings

__all__ = ["setting", "settings"]
