"""What a plug-in file of `swift rlhf --external_plugins` calls: the curated trainer in the place of ms-swift's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from geoalign.adapters.swift.refusals import check_version
from geoalign.adapters.swift.settings import VARIABLE, SwiftSettings, read_settings
from geoalign.adapters.trl.fields import RolloutField
from geoalign.curators.base import Curator
from geoalign.curators.registry import make_curator
from geoalign.errors import ConfigError, UnsupportedError

TRAINER = "geoalign.adapters.swift.mixin.GeoAlignGRPOTrainer"
REFUSED = "geoalign.adapters.swift.refusals.OtherTraining"


@dataclass(frozen=True)
class Choice:
    """What `install` was called with."""

    settings: SwiftSettings
    curator: Curator | None
    rollout_fields: Mapping[str, RolloutField]

    def make_curator(self) -> Curator:
        """The curator that was given, or else that of the settings, new."""
        return make_curator(self.settings.curator) if self.curator is None else self.curator


_choices: list[Choice] = []


def install(
    settings: str | Path | Mapping[str, Any] | None = None,
    *,
    curator: Curator | None = None,
    rollout_fields: Mapping[str, RolloutField] | None = None,
) -> None:
    """Makes `swift rlhf --rlhf_type grpo` of this process curate its rollouts; other kinds of training are refused.

    Args:
        settings: a YAML file of `SwiftSettings`, or its content; None: the file named by the environment variable
            GEOALIGN_SWIFT, else all defaults.
        curator: a curator in the place of the one in the settings.
        rollout_fields: as in `geoalign.adapters.trl.GeoAlignMixin`, beside those of the settings.

    Raises:
        ConfigError: a setting is unknown or out of range.
        UnsupportedError: a version of ms-swift that the adapter is not written for, or its Megatron trainers.
    """
    check_version()
    if any(name.startswith("swift.megatron.pipelines") for name in sys.modules):
        raise UnsupportedError("megatron rlhf: its trainers are others; use swift rlhf --rlhf_type grpo")
    parsed = read_settings(settings if settings is not None else os.environ.get(VARIABLE, {}))
    fields = {name: _field(value) for name, value in parsed.rollout_fields.items()}
    from swift.trainers import TrainerFactory

    _choices[:] = [Choice(parsed, curator, {**fields, **(rollout_fields or {})})]
    for kind in TrainerFactory.TRAINER_MAPPING:
        TrainerFactory.TRAINER_MAPPING[kind] = TRAINER if kind == "grpo" else REFUSED


def chosen() -> Choice:
    """What the last `install` was called with; ConfigError where there was none."""
    if not _choices:
        raise ConfigError("geoalign.adapters.swift.install: expected to be called before a trainer is made, was not")
    return _choices[0]


def _field(text: str) -> RolloutField:
    """A column's name, or the function that `module:function` names."""
    module, colon, function = text.partition(":")
    if not colon:
        return text
    try:
        found: RolloutField = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"rollout_fields: expected a column or module:function, got {text!r} ({error})") from error
    return found
