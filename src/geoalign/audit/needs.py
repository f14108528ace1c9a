"""What a curator needs of rollouts, and what a file of them brings."""

from __future__ import annotations

from dataclasses import replace

import pandas

from geoalign.curators.appeals import AppealsConfig
from geoalign.curators.chain import ChainConfig
from geoalign.curators.curator import Curator
from geoalign.curators.denoise import DenoiseConfig
from geoalign.curators.monitor import MonitorConfig
from geoalign.curators.registry import CuratorSection
from geoalign.errors import ConfigError

# How a need that a file of rollouts may not meet can be met.
_WAYS = {
    "hidden": "hidden states (--hidden FILE or --model ID_OR_PATH)",
    "lengths": "lengths in tokens (--field tokens=NAME or --model ID_OR_PATH)",
    "true_rewards": "true rewards (--field true_reward=NAME)",
    "trusted": "labels (--labels FILE)",
}
# What follows from a reward and a response alone.
_ALWAYS = {"answers", "advantages", "ids", "prompt_keys"}


def without_states(section: CuratorSection) -> CuratorSection:
    """The settings of a curator where no rollout has states: `denoise` goes by answers and identical responses."""
    if isinstance(section, ChainConfig):
        return replace(section, members=tuple(without_states(member) for member in section.members))
    if isinstance(section, (AppealsConfig, MonitorConfig)):
        return replace(section, curator=without_states(section.curator))
    if isinstance(section, DenoiseConfig) and section.geometry == "states":
        return replace(section, geometry="none")
    return section


def check_brought(name: str, curator: Curator, rows: pandas.DataFrame, *, model: bool, hidden: bool) -> None:
    """Raises ConfigError unless a file's rows bring what the curator needs.

    Args:
        name: the curator's name, for the message.
        model: states and lengths in tokens come from a model.
        hidden: a file of states belongs to the rows.
    """
    brought = set(_ALWAYS)
    if model or hidden:
        brought.add("hidden")
    if model or rows["tokens"].notna().all():
        brought.add("lengths")
    if rows["true_reward"].notna().any():
        brought.add("true_rewards")
    if rows["truncated"].notna().any():
        brought.add("donor_ok")
    if rows["label"].notna().any():
        brought.add("trusted")
    missing = [_WAYS.get(need, f"{need}, which no dump has") for need in curator.requires if need not in brought]
    if missing:
        raise ConfigError(
            f"curator: {name} needs {' and '.join(missing)}, got none; denoise, the default, does without"
        )
