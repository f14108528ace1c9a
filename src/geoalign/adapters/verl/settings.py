"""The settings under `+geoalign` of verl's own configuration. Imports no torch and no verl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import Field

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import check_keys, parse_run_config
from geoalign.settings.curators import GeoAlignConfig, settings
from geoalign.settings.locations import Places

SECTION = "geoalign"
# Rollout fields that verl does not know by itself: names of what the reward function returns beside the score.
REWARD_FIELDS = ("answers", "reference_rewards", "true_rewards")


@settings
class _Plain:
    """The settings that are plain values."""

    hidden_position: Literal["final", "predicting", "mean"] = field(
        default="predicting", metadata={"help": "Which last-layer hidden state stands for a response."}
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = field(default=0, metadata={"help": "Seed of the curator's draws."})
    place: Literal["driver", "worker"] = field(
        default="driver", metadata={"help": "Where a batch is curated: the driver's CPU, or the device of worker 0."}
    )
    rollout_fields: dict[str, str] = field(
        default_factory=dict,
        metadata={"help": "answers, reference_rewards, true_rewards: names in the reward function's result."},
    )


@dataclass(frozen=True)
class VerlSettings:
    """What `+geoalign` says.

    Attributes:
        curator: settings of the curator; `type:` picks it by name.
        hidden_position: which hidden state a curator gets (`geoalign.hidden.response_states`).
        seed: of the curator's generator.
        place: "driver" curates on the CPU of the driver, beside verl's reference and value passes; "worker" on the
            device of actor worker 0, after them.
        rollout_fields: "answers", "reference_rewards" or "true_rewards" -> a name in the dict that the reward function
            returns.
    """

    curator: Any = field(default_factory=GeoAlignConfig)
    hidden_position: str = "predicting"
    seed: int = 0
    place: str = "driver"
    rollout_fields: Mapping[str, str] = field(default_factory=dict)


def parse_settings(section: Any) -> VerlSettings:
    """The settings from the plain data of the section `geoalign`; None: all defaults.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range.
    """
    if section is None:
        section = {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"+{SECTION}: expected a section such as +geoalign.curator.type=geoalign, got {section!r}")
    check_keys(section, [item.name for item in fields(VerlSettings)], SECTION, Places())
    plain = _Plain(**{name: value for name, value in section.items() if name != "curator"})
    for name in plain.rollout_fields:
        if name not in REWARD_FIELDS:
            raise ConfigError(
                f"{SECTION}.rollout_fields: expected keys out of {', '.join(REWARD_FIELDS)}; got {name!r}"
            )
    curator: Any = GeoAlignConfig()
    if "curator" in section:
        try:
            curator = parse_run_config({"curator": section["curator"]}).curator
        except ConfigError as error:
            raise ConfigError(f"{SECTION}: {error}") from error
    return VerlSettings(
        curator=curator,
        hidden_position=plain.hidden_position,
        seed=plain.seed,
        place=plain.place,
        rollout_fields=plain.rollout_fields,
    )
