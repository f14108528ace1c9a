"""The settings of a learned reward model: trained in the run, a ready one, or behind a server; free of torch."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from geoalign.settings import setting, settings
from geoalign.shown import shown

_Text = Annotated[str, Field(min_length=1)]


def _http_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value):
        raise ValueError("expected a URL that begins http:// or https://, without query")
    try:
        host, port = urlsplit(value).hostname, urlsplit(value).port
    except ValueError as error:
        raise ValueError(f"expected a URL with a host and a port from 1 to 65535: {error}") from error
    if not host or port == 0:
        raise ValueError("expected a URL with a host and a port from 1 to 65535")
    return value.rstrip("/")


@settings
class RewardHeadConfig:
    """Reward models whose head alone is fitted, on the mean state of a reply in the frozen model.

    It takes one pass over the pairs, and the rest of the model stays as the warm start left it.
    """

    penalty: Annotated[float, Field(gt=0)] = setting(
        default=1.0, help="Half of it times the squared length of the fitted direction, in standard deviations."
    )
    layers: Annotated[int, Field(ge=1)] | None = setting(
        default=None, help="Keep the model's first so many layers; null: all."
    )


@settings
class RewardModelConfig:
    """Where the reward model comes from, and how it scores responses.

    With neither `path` nor `url` the run trains one on its task's preference pairs, where the task has some. With
    either, it trains none, and any task may be scored by it.
    """

    path: _Text | None = setting(default=None, help="A ready reward model: folder or hub id.")
    revision: _Text | None = setting(default=None, help="Branch, tag or commit of the model on the hub.")
    trust_remote_code: bool = setting(
        default=False, help="Run the Python code that comes with the model (or `tokenizer`), as ArmoRM needs."
    )
    batch_size: Annotated[int, Field(ge=1)] = setting(default=64, help="Responses scored at a time.")
    device: str | None = setting(default=None, help="Device of the reward model; null: that of training.")
    dtype: Literal["float32", "bfloat16", "float16"] = setting(default="float32", help="Type of its weights in memory.")
    max_length: Annotated[int, Field(ge=1)] | None = setting(
        default=None, help="Longest dialogue in tokens; longer ones are not scored. null: what it can take."
    )
    url: Annotated[str, AfterValidator(_http_url)] | None = setting(default=None, help="A server of vLLM that scores.")
    api: Literal["vllm", "vllm_pooling"] = setting(
        default="vllm", help="What the server is asked by: vLLM's /classify, or vLLM's /pooling."
    )
    tokenizer: _Text | None = setting(
        default=None, help="Of a server: folder or hub id with the chat template to use; null: the served model's name."
    )
    token_env: _Text | None = setting(
        default=None, help="Environment variable with the server's bearer token; null: none is sent."
    )
    timeout: Annotated[float, Field(gt=0)] = setting(default=120.0, help="Seconds for one request.")
    patience: Annotated[float, Field(ge=0)] = setting(
        default=600.0,
        help="Seconds that a batch waits for a server that is away; then the rest of it stays unscored.",
    )

    @property
    def ready(self) -> bool:
        """Whether the reward model is there already, so that the run trains none."""
        return self.path is not None or self.url is not None

    @model_validator(mode="after")
    def _go_together(self) -> Any:
        if self.path is not None and self.url is not None:
            raise ValueError(f"url: expected null beside path={shown(self.path)}, got {shown(self.url)}")
        for name in ("tokenizer", "token_env"):
            if (value := getattr(self, name)) is not None and self.url is None:
                raise ValueError(f"{name}: expected null without a url, got {shown(value)}")
        if self.revision is not None and self.path is None:
            raise ValueError(f"revision: expected null without a path, got {shown(self.revision)}")
        return self
