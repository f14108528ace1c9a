"""The section `geoalign` in the file of slime's `--custom-config-path`. Imports no torch and no slime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from geoalign.adapters.unsupported import refuse_anchors
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.errors import ConfigError
from geoalign.settings import setting, settings
from geoalign.settings.loading import load_settings

SECTION = "geoalign"
# Rollout fields that slime does not know by itself.
SAMPLE_FIELDS = ("answers", "reference_rewards", "true_rewards")


@settings
class SlimeSettings:
    """What the section `geoalign` says."""

    curator: CuratorSection = setting(
        default_factory=default_curator, help="Settings of the curator; `type` picks it by name."
    )
    hidden_key: str = setting(default="geoalign_hidden", help="Entry of Sample.metadata with the hidden state.")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(default=0, help="Seed of the curator's draws.")
    data_source: str | None = setting(
        default=None, help="Path of the data source to wrap; null: the one that --data-source-path has by default."
    )
    resume: bool = setting(
        default=True, help="Save the curator's state with checkpoints, and take it from that of --load."
    )
    rollout_fields: dict[str, str] = setting(
        default_factory=dict,
        help="answers, reference_rewards, true_rewards: entries of Sample.metadata, or of a reward that is a dict.",
    )


def parse_settings(section: Any) -> SlimeSettings:
    """The settings from the plain data of the section `geoalign`; None: all defaults.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range.
    """
    if section is None:
        section = {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"{SECTION}: expected a section in the file of --custom-config-path, got {section!r}")
    refuse_anchors(section, f"{SECTION}.anchors", "slime")
    parsed: SlimeSettings = load_settings(SlimeSettings, section, path=SECTION)
    for name in parsed.rollout_fields:
        if name not in SAMPLE_FIELDS:
            raise ConfigError(
                f"{SECTION}.rollout_fields: expected keys out of {', '.join(SAMPLE_FIELDS)}; got {name!r}"
            )
    return parsed
