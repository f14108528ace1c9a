"""Bearer tokens from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from geoalign.errors import ConfigError


def token_from(variable: str, *, key: str, environment: Mapping[str, str] = os.environ) -> str:
    """The token that an environment variable holds, without the spaces around it.

    Args:
        key: the setting that names the variable, for the error.

    Raises:
        ConfigError: the variable is unset or empty, or holds what cannot stand in a header. Never shows the value.
    """
    token = environment.get(variable, "").strip()
    problem = "none" if not token else "something else"
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{key}: expected a token of printable ASCII without spaces in ${variable}, got {problem}")
    return token
