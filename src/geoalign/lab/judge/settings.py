"""The settings of the judge that compares two response files; free of torch."""

from __future__ import annotations

from collections.abc import Sequence

from geoalign.endpoint.settings import JudgeConfig
from geoalign.errors import ConfigError
from geoalign.settings.layers import Typed, overridden
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations


def load_judge_config(
    base_url: str | None, model: str | None, overrides: Sequence[str] = (), *, local: bool = False
) -> JudgeConfig | None:
    """The settings from the command line: address, model, and each `a=b` of `overrides`; None for the local rule."""
    if local and (base_url, model, *overrides) != (None, None):
        raise ConfigError("--local: expected alone, got --base-url, --model or --set, which are for an endpoint")
    if local:
        return None
    if base_url is None or model is None:
        raise ConfigError("judge: expected --base-url and --model, or --local to try the command without an endpoint")
    options = [
        Typed("base_url", base_url.rstrip("/"), "--base-url"),
        Typed("model", model, "--model"),
    ]
    values, locations = overridden(overrides, options, default_types={})
    return load_settings(JudgeConfig, values, Locations(locations))
