"""From a YAML file and `--set` overrides to the typed settings of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.train.settings import DEFAULT_TYPES, RunConfig
from geoalign.settings.layers import Loaded, override_setting, read_layers
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import NOWHERE, Locations


def load_run_config(path: Path | None = None, overrides: Sequence[str] = ()) -> Loaded[RunConfig]:
    """The settings of a run: defaults, the file that its `base:` names, the file, each `a.b=c` of `overrides` in order.

    Naming another `type` in an override starts that section anew: keys of the old kind do not carry over.
    """
    data, locations = read_layers(path, default_types=DEFAULT_TYPES) if path is not None else ({}, {})
    for override in overrides:
        override_setting(data, locations, override, default_types=DEFAULT_TYPES)
    return Loaded(parse_run_config(data, Locations(locations)), Locations(locations))


def parse_run_config(data: Mapping[str, Any], locations: Locations = NOWHERE) -> RunConfig:
    """The settings of a run from plain data, as `plain_settings` gives them."""
    config: RunConfig = load_settings(RunConfig, data, locations)
    return config


@contextmanager
def locating_errors(locations: Locations) -> Iterator[None]:
    """Within the block a ConfigError about a setting, which begins with its key, also names the file and the line."""
    try:
        yield
    except ConfigError as error:
        key = str(error).partition(":")[0]
        raise ConfigError(f"{locations.prefix(key)}{error}") from error
