"""The settings of the judge that compares two response files; free of torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import override_setting
from geoalign.settings import setting, settings
from geoalign.settings.loading import check_keys, load_settings
from geoalign.settings.locations import Locations

# What every request says by itself.
_OWN_KEYS = ("model", "messages", "stream", "n")


@settings
class JudgeConfig:
    """A judge behind an OpenAI-compatible endpoint, and when a request is repeated."""

    base_url: Annotated[str, Field(min_length=1)] = setting(
        help="Address up to and with the version: https://host/v1. /chat/completions is added.", metavar="URL"
    )
    model: Annotated[str, Field(min_length=1)] = setting(help="The model's name at the endpoint.", metavar="NAME")
    token_env: Annotated[str, Field(min_length=1)] | None = setting(
        default=None,
        help="Environment variable with the API key. null: OPENAI_API_KEY where it is set, otherwise no key is sent.",
    )
    temperature: Annotated[float, Field(ge=0, le=2)] = setting(default=0.0, help="Of the judge's sampling.")
    max_tokens: Annotated[int, Field(ge=1)] = setting(default=512, help="Longest answer.")
    request: dict[str, Any] = setting(
        default_factory=dict,
        help="Further keys of every request, such as seed; null leaves one out, such as max_tokens.",
    )
    timeout: Annotated[float, Field(gt=0)] = setting(
        default=120.0, help="Seconds for one request, from connecting to the answer's last byte."
    )
    retries: Annotated[int, Field(ge=0)] = setting(
        default=6, help="Tries after one that may go better later: HTTP 408, 409, 425, 429, 5xx, no answer."
    )
    backoff: Annotated[float, Field(ge=0)] = setting(
        default=1.0, help="Seconds before the first of these tries; doubled each time, at most 120."
    )
    patience: Annotated[float, Field(ge=0)] = setting(
        default=1800.0, help="Seconds for one answer over all tries and the pauses between them."
    )
    malformed_retries: Annotated[int, Field(ge=0)] = setting(
        default=2, help="How often the judge is asked again after an answer that is no verdict."
    )
    concurrency: Annotated[int, Field(ge=1, le=256)] = setting(default=8, help="Requests at a time.")
    failures_in_a_row: Annotated[int, Field(ge=1)] = setting(
        default=10, help="So many judgments that the endpoint gave no answer to, one after another, end it."
    )

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, value: str) -> str:
        parts = urlsplit(value)
        port = parts.port  # raises where it is none
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise ValueError("expected an address such as https://host/v1")
        if parts.query or parts.fragment:
            raise ValueError("expected an address without ? and #; the key comes from the environment")
        return value.rstrip("/")

    @field_validator("request")
    @classmethod
    def _further_keys(cls, value: dict[str, Any]) -> dict[str, Any]:
        own = [name for name in _OWN_KEYS if name in value]
        if own:
            raise ValueError(f"expected none of {', '.join(_OWN_KEYS)}, which the judge sets itself")
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected what JSON can hold: {error}") from error
        return value


def load_judge_config(
    base_url: str | None, model: str | None, overrides: Sequence[str] = (), *, local: bool = False
) -> JudgeConfig | None:
    """The settings from the command line: address, model, and each `a=b` of `overrides`; None for the local rules.

    Raises:
        ConfigError: an address without a model or the other way round, either together with `local`, an unknown setting
            (with the nearest known one), or a value out of range.
    """
    if local:
        if base_url is not None or model is not None or overrides:
            raise ConfigError("--local: expected alone, got --base-url, --model or --set, which are for an endpoint")
        return None
    if base_url is None or model is None:
        raise ConfigError("judge: expected --base-url and --model, or --local to try the command without an endpoint")
    values: dict[str, Any] = {}
    locations: dict[str, str] = {}
    for override in overrides:
        override_setting(values, locations, override)
    known = [item.name for item in fields(JudgeConfig) if item.name not in ("base_url", "model")]
    check_keys(values, known, "", Locations(locations))
    locations |= {"base_url": "--base-url", "model": "--model"}
    config: JudgeConfig = load_settings(
        JudgeConfig, {"base_url": base_url, "model": model, **values}, Locations(locations)
    )
    return config
