"""The arguments of the operator and of the advantage function, from Trinity's YAML. Imports no torch, no Trinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from geoalign.adapters.sections import StateSettings, read_section
from geoalign.settings import setting, settings


@settings
class TrinitySettings(StateSettings):
    """The content of `args` (operator) or `advantage_fn_args`."""

    hidden_key: str = setting(
        default="geoalign_hidden", help="Entry of Experience.info with the hidden state, where there is one."
    )
    model_path: str | None = setting(
        default=None, help="Model that computes the hidden states; null: every experience brings its own."
    )
    reload: Literal["published", "never"] = setting(
        default="published",
        help="published: the weights that Trinity's synchroniser has; never: always those of model_path.",
    )
    device: str = setting(default="cpu", help="Where model_path computes.")
    dtype: Literal["float32", "bfloat16", "float16"] = setting(default="float32", help="Of the weights of model_path.")
    batch_size: Annotated[int, Field(ge=1)] = setting(default=8, help="Rows in a pass of model_path.")
    trust_remote_code: bool = setting(default=False, help="Run the Python code that comes with model_path.")
    state_file: str | None = setting(
        default=None, help="Projector and random state, written after each batch and resumed from."
    )


def read_settings(arguments: Mapping[str, Any]) -> TrinitySettings:
    """The settings; `curator` is a section with its `type`, or a name alone.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range.
    """
    parsed: TrinitySettings = read_section(TrinitySettings, arguments, engine="Trinity")
    return parsed
