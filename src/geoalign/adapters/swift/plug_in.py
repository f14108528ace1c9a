"""What a plug-in file of `swift rlhf --external_plugins` calls: the curated trainer in the place of ms-swift's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.adapters.exports import check_engine
from geoalign.adapters.grpo_trainer.generation_batch import RolloutField, named_field
from geoalign.adapters.settings import StateSettings, read_section
from geoalign.curators.curator import Curator
from geoalign.curators.registry import as_curator
from geoalign.errors import ConfigError, UnsupportedError
from geoalign.settings.locations import Locations
from geoalign.settings.yaml_text import read_yaml

TRAINER = "geoalign.adapters.swift.mixin.GeoAlignSwiftTrainer"
REFUSED = "geoalign.adapters.swift.refusals.OtherTraining"

# What the last `install` was called with: settings, a curator in the place of theirs, and rollout fields.
_installed: list[tuple[StateSettings, Curator | None, dict[str, RolloutField]]] = []


def install(
    settings: str | Path | Mapping[str, Any] | None = None,
    *,
    curator: Curator | str | Mapping[str, Any] | Any | None = None,
    rollout_fields: Mapping[str, RolloutField] | None = None,
) -> None:
    """Makes `swift rlhf --rlhf_type grpo` of this process curate its rollouts; other kinds of training are refused.

    Args:
        settings: a YAML file of settings, or its content; None: all defaults.
        curator: a curator, or what `as_curator` makes one of, in the place of the one in the settings.
        rollout_fields: as in `geoalign.adapters.trl.GeoAlignMixin`, beside those of the settings.

    Raises:
        ConfigError: a setting is unknown or out of range.
        UnsupportedError: a version of ms-swift that the adapter is not written for, or its Megatron trainers.
    """
    check_engine("ms-swift")
    if any(name.startswith("swift.megatron.pipelines") for name in sys.modules):
        raise UnsupportedError("megatron rlhf: its trainers are others; use swift rlhf --rlhf_type grpo")
    parsed = read_settings(settings or {})
    fields = {name: named_field(value) for name, value in parsed.rollout_fields.items()}
    from swift.trainers import TrainerFactory

    chosen_curator = None if curator is None else as_curator(curator)
    _installed[:] = [(parsed, chosen_curator, {**fields, **(rollout_fields or {})})]
    for kind in TrainerFactory.TRAINER_MAPPING:
        TrainerFactory.TRAINER_MAPPING[kind] = TRAINER if kind == "grpo" else REFUSED


def installed_settings() -> tuple[StateSettings, Curator | None, dict[str, RolloutField]]:
    """What the last `install` was called with; ConfigError where there was none."""
    if not _installed:
        raise ConfigError("geoalign.adapters.swift.install: expected to be called before a trainer is made, was not")
    return _installed[0]


def read_settings(given: str | Path | Mapping[str, Any]) -> StateSettings:
    """The settings from a YAML file, or from plain data."""
    if isinstance(given, Mapping):
        return read_section(StateSettings, given, engine="ms-swift")
    plain, locations = read_yaml(Path(given))
    return read_section(StateSettings, plain, engine="ms-swift", locations=Locations(locations))
