"""The settings of `geoalign curate`, which curates dumps of rollouts without a trainer; free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import override_setting, parse_run_config, parse_settings
from geoalign.settings.curators import GeoAlignConfig, settings
from geoalign.settings.locations import Places
from geoalign.settings.shown import shown_key


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@settings
class CurateConfig:
    """How dumps of rollouts are curated; which ones, and where their hidden states are, stands on the command line."""

    curator: Any = field(default_factory=GeoAlignConfig, metadata=_help("Settings of the curator."))
    seed: Annotated[int, Field(ge=0, lt=2**31)] = field(default=0, metadata=_help("Seed of every random draw."))
    hidden_tensor: Annotated[str, Field(min_length=1)] | None = field(
        default=None,
        metadata=_help("Name of the states in a safetensors file; null: `hidden`, or the only tensor there."),
    )
    hidden_position: Literal["final", "predicting", "mean"] = field(
        default="predicting", metadata=_help("Which last-layer hidden state of the model stands for a response.")
    )
    prompts: Literal["auto", "chat", "text"] = field(
        default="auto",
        metadata=_help(
            "How the model reads prompts that are texts: as one message of the user in its chat template, or as they "
            "stand; auto: chat where the format keeps bare questions, text where it keeps rendered prompts."
        ),
    )
    chat_template_kwargs: dict[str, Any] = field(
        default_factory=dict, metadata=_help("What the chat template is told, such as enable_thinking: false.")
    )
    batch_size: Annotated[int, Field(ge=1)] = field(
        default=16, metadata=_help("Rollouts that the model takes at a time; 1 to 16 for long ones.")
    )
    max_tokens: Annotated[int, Field(ge=2)] | None = field(
        default=None, metadata=_help("Longer rollouts keep their last tokens; null: as many as the model can take.")
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto", metadata=_help("Type of the model's weights; auto: float32 on a CPU, otherwise bfloat16.")
    )
    device: Annotated[str, Field(min_length=1)] | None = field(
        default=None, metadata=_help("Device of the model; null: an accelerator where there is one.")
    )
    revision: Annotated[str, Field(min_length=1)] | None = field(
        default=None, metadata=_help("Branch, tag or commit of the model on the hub.")
    )
    trust_remote_code: bool = field(default=False, metadata=_help("Run the Python code that comes with the model."))
    pairs_per_step: Annotated[int, Field(ge=0)] = field(
        default=20_000,
        metadata=_help("Pairs kept per step of groups without a flagged rollout; those of flagged ones all are."),
    )
    consensus_check: bool = field(
        default=True,
        metadata=_help("Where no step was judged by the one before, measure the consensus by cross-fitting."),
    )


def load_curate_config(curator: str | None = None, overrides: Sequence[str] = ()) -> CurateConfig:
    """The settings from the command line: the curator's name, and each `a.b=c` of `--set`; `curator.` ones are its own.

    Raises:
        ConfigError: an unknown curator or setting (with the nearest known one), a value out of range, or two curators.
    """
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    if curator is not None:
        values["curator"] = {"type": curator}
        places["curator.type"] = f"--curator {shown_key(curator)}"
    for override in overrides:
        override_setting(values, places, override)
    section = values.pop("curator", {})
    if curator is not None and isinstance(section, dict) and section.get("type") != curator:
        other = places["curator.type"].removeprefix("--set ")
        raise ConfigError(f"curator.type: expected once, got --curator {shown_key(curator)} and {other}")
    known = Places(places)
    chosen = parse_run_config({"curator": section}, known).curator
    config: CurateConfig = parse_settings(CurateConfig, {**values, "curator": chosen}, known)
    return config
