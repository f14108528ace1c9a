"""The settings of the judge that compares two response files; free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import Typed, overridden
from geoalign.lab.config.rewards import Address
from geoalign.settings import Count, Name, NotNegative, Positive, setting, settings
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations


@settings
class JudgeConfig:
    """A judge behind an OpenAI-compatible endpoint."""

    base_url: Address = setting(help="Address, including the version: https://host/v1. /chat/completions is added.")
    model: Name = setting(help="The model's name at the endpoint.")
    token_env: Name | None = setting(
        default=None,
        help="Environment variable with the API key. null: OPENAI_API_KEY where it is set, otherwise no key is sent.",
    )
    temperature: Annotated[float, Field(ge=0, le=2)] = setting(default=0.0, help="Sampling temperature of the judge.")
    max_tokens: Count = setting(default=512, help="Longest answer.")
    request: dict[str, Any] = setting(
        default_factory=dict,
        help="Further keys of every request, such as seed; null removes one, such as max_tokens.",
    )
    timeout: Positive = setting(default=120.0, help="Seconds for one request.")
    patience: NotNegative = setting(
        default=600.0, help="Seconds to retry an endpoint that is down or overloaded; then judging ends."
    )
    concurrency: Annotated[int, Field(ge=1, le=256)] = setting(default=8, help="Requests at a time.")


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
    values, locations = overridden(overrides, options)
    return load_settings(JudgeConfig, values, Locations(locations))
