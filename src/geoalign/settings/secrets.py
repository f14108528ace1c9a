"""Settings hold no secrets: they are written to run folders and shown in pages that people share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geoalign.errors import ConfigError
from geoalign.settings.locations import Locations
from geoalign.settings.masking import has_credentials, is_secret_name, masked

# Where the packages that the settings are passed on to look for a secret themselves.
_VARIABLES = {"wandb": "WANDB_API_KEY", "openai": "OPENAI_API_KEY", "token": "HF_TOKEN"}


def refuse_secrets(value: Any, locations: Locations | None = None, path: str = "") -> None:
    """Raises ConfigError for a secret in plain settings: by its name (hub_token, api_key, password), or an address with
    user, password or key. The message names the setting and what to use instead, never the value.

    Args:
        value: settings as nested dicts and lists; null and true or false are no secrets.
        path: the dotted key of `value` itself.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            refuse_secrets(inner, locations, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            refuse_secrets(inner, locations, path)
    elif value is not None and not isinstance(value, bool) and is_secret_name(path):
        raise ConfigError(f"{_prefix(locations, path)}{secret_setting(path)}")
    elif isinstance(value, str) and has_credentials(value):
        raise ConfigError(
            f"{_prefix(locations, path)}{path}: expected an address without user, password and key, "
            f"got {masked(value)}: settings are written to files that people share"
        )


def secret_setting(key: str) -> str:
    """What is said of a setting that would hold a secret."""
    name = key.lower()
    variable = next((variable for part, variable in _VARIABLES.items() if part in name), None)
    instead = f"the environment variable {variable}" if variable else "an environment variable"
    return (
        f"{key}: expected to be left out, got a secret: settings are written to files that people share; "
        f"use {instead} instead"
    )


def _prefix(locations: Locations | None, key: str) -> str:
    return "" if locations is None else masked(locations.prefix(key))
