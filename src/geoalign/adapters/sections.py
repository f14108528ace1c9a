"""The settings of an engine's adapter, from plain data of that engine's own configuration. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.errors import ConfigError
from geoalign.settings import setting, settings
from geoalign.settings.hidden import LAST, HiddenLayerSetting, HiddenPosition
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations

# Rollout fields that no engine knows by itself.
FIELDS = ("answers", "reference_rewards", "true_rewards")


@settings
class EngineSettings:
    """What the settings of every engine say."""

    curator: CuratorSection = setting(
        default_factory=default_curator, help="Settings of the curator: a section with its `type`, or a name alone."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(default=0, help="Seed of the curator's draws.")
    rollout_fields: dict[str, str] = setting(
        default_factory=dict, help="answers, reference_rewards, true_rewards: where the engine's rows have them."
    )


@settings
class StateSettings(EngineSettings):
    """Those of engines in which the adapter reads hidden states."""

    hidden_position: HiddenPosition = setting(
        default="predicting", help="Where in a response its hidden state is read (`geoalign.hidden`)."
    )
    hidden_layer: HiddenLayerSetting = setting(
        default=LAST, help="After which layer: its number, or a share of the depth; a list: several."
    )


def read_section(
    kind: Any, given: Any, *, engine: str, path: str = "", place: str = "", locations: Locations | None = None
) -> Any:
    """The settings of the class `kind`; `curator` is a section with its `type`, or a name alone.

    Args:
        given: plain data; None: all defaults.
        engine: its name, for messages.
        path: the dotted key of the section; "" where it is the whole.
        place: what is expected at this key, for messages.
        locations: where each key was written.

    Raises:
        ConfigError: no section, an unknown key (with the nearest known one), a value out of range, or anchors, which
            only the adapter for TRL can show to a curator.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{path}: expected a section {place}, got {given!r}")
    plain, prefix = dict(given or {}), f"{path}." if path else ""
    if plain.get("anchors") is not None:
        raise ConfigError(
            f"{prefix}anchors: expected to be left out, got a value: inside {engine} no anchors can be shown to a "
            "curator, inside TRL they can (geoalign.adapters.trl)"
        )
    if isinstance(plain.get("curator"), str):
        plain["curator"] = {"type": plain["curator"]}
    parsed = load_settings(kind, plain, locations, path=path)
    for name in parsed.rollout_fields:
        if name not in FIELDS:
            raise ConfigError(f"{prefix}rollout_fields: expected keys out of {', '.join(FIELDS)}; got {name!r}")
    return parsed
