"""A curator around another one."""

from __future__ import annotations

from typing import Any, TypeVar

from geoalign.curators.curator import Curator
from geoalign.curators.registry import as_curator
from geoalign.errors import ConfigError

_Config = TypeVar("_Config")


class Holder(Curator[_Config]):
    """A curator around one other, which stands in its settings as `curator`, and whose declarations it takes over.

    Args:
        config: its settings; or the curator that it holds, as `as_curator` takes one.
        settings: single settings. `curator` may be whatever `as_curator` takes: a `Curator` is held as it is, with all
            that it has learnt.

    Raises:
        ConfigError: a setting is unknown or out of range; no curator can be made of what is given.
    """

    def __init__(self, config: Any = None, **settings: Any) -> None:
        if config is not None and not isinstance(config, self.config_class):
            if "curator" in settings:
                raise ConfigError(f"{type(self).__name__}: expected one curator, got two")
            settings["curator"] = config
            config = None
        if "curator" in settings:
            self._inner = as_curator(settings["curator"])
            settings["curator"] = self._inner.config
            super().__init__(config, **settings)
        else:
            super().__init__(config, **settings)
            of_any: Any = self.config
            self._inner = as_curator(of_any.curator)
        self.combine(self._inner)
