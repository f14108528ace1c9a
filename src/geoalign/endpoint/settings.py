"""The settings of an endpoint: its address, model and key, and how patient a client is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from geoalign.settings import Count, Name, NotNegative, Options, Positive, setting, settings

# Without user, query and fragment: a key comes from the environment.
Address = Annotated[str, Field(pattern=r"^https?://([^\s/?#@:\[]+|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?(/[^\s?#]*)?$")]


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
    request: Options = setting(
        default_factory=dict,
        help="Further keys of every request, such as seed; null removes one, such as max_tokens.",
    )
    timeout: Positive = setting(default=120.0, help="Seconds for one request.")
    patience: NotNegative = setting(
        default=600.0, help="Seconds to retry an endpoint that is down or overloaded; then judging ends."
    )
    concurrency: Annotated[int, Field(ge=1, le=256)] = setting(default=8, help="Requests at a time.")
