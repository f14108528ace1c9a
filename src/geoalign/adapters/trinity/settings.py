"""The arguments of the operator and of the advantage function, from Trinity's YAML. Imports no torch, no Trinity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import parse_run_config, parse_settings
from geoalign.settings.curators import GeoAlignConfig, settings

# Rollout fields that Trinity does not know by itself: names of entries of `Experience.info`.
INFO_FIELDS = ("answers", "reference_rewards", "true_rewards")


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@settings
class TrinitySettings:
    """What stands under `args` (operator) or `advantage_fn_args`, beside `curator`."""

    hidden_key: str = field(
        default="geoalign_hidden", metadata=_help("Entry of Experience.info with the hidden state, where there is one.")
    )
    model_path: str | None = field(
        default=None, metadata=_help("Model that computes the hidden states; null: every experience brings its own.")
    )
    reload: Literal["published", "never"] = field(
        default="published",
        metadata=_help("published: the weights that Trinity's synchroniser has; never: always those of model_path."),
    )
    hidden_position: Literal["predicting", "final", "mean"] = field(
        default="predicting", metadata=_help("Which last-layer hidden state stands for a response.")
    )
    device: str = field(default="cpu", metadata=_help("Where model_path computes."))
    dtype: Literal["float32", "bfloat16", "float16"] = field(
        default="float32", metadata=_help("Of the weights of model_path.")
    )
    batch_size: Annotated[int, Field(ge=1)] = field(default=8, metadata=_help("Rows in a pass of model_path."))
    trust_remote_code: bool = field(default=False, metadata=_help("Run the Python code that comes with model_path."))
    seed: Annotated[int, Field(ge=0, lt=2**63)] = field(default=0, metadata=_help("Seed of the curator's draws."))
    state_file: str | None = field(
        default=None, metadata=_help("Projector and random state, written after each batch and resumed from.")
    )
    rollout_fields: dict[str, str] = field(
        default_factory=dict, metadata=_help("answers, reference_rewards, true_rewards: entries of Experience.info.")
    )


def read_settings(arguments: Mapping[str, Any]) -> tuple[TrinitySettings, Any]:
    """The settings, and those of the curator: `curator` is a section with its `type`, or a name alone.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range.
    """
    plain = dict(arguments)
    given = plain.pop("curator", None)
    curator: Any = GeoAlignConfig()
    if given is not None:
        section = {"type": given} if isinstance(given, str) else given
        curator = parse_run_config({"curator": section}).curator
    found: TrinitySettings = parse_settings(TrinitySettings, plain)
    for name in found.rollout_fields:
        if name not in INFO_FIELDS:
            raise ConfigError(f"rollout_fields: expected keys out of {', '.join(INFO_FIELDS)}; got {name!r}")
    return found, curator
