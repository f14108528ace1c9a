"""Axolotl's plugin: it makes `geoalign` a section of the YAML, and the curated trainer the one that Axolotl builds.

A plugin's `get_trainer_cls` would be the obvious place for the trainer, but Axolotl hands such a trainer neither the
model nor the reward functions of GRPO. `trainer_cls` of the configuration replaces the class alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axolotl.integrations.base import BasePlugin
from pydantic import BaseModel, Field

from geoalign.adapters.decision import refuse
from geoalign.adapters.exports import check_engine
from geoalign.adapters.settings import SECTION, StateSettings, read_section
from geoalign.errors import ConfigError

TRAINER = "geoalign.adapters.axolotl.CuratedAxolotlTrainer"

# The settings of the configuration that Axolotl read last: its own plugins are single objects, too.
_registered: list[StateSettings] = []


class GeoAlignArgs(BaseModel):
    """What Axolotl adds to its own schema: without it, it would drop the section."""

    geoalign: dict[str, Any] | None = Field(default=None, description="The curator and its settings.")


class GeoAlignPlugin(BasePlugin):
    """`plugins: [geoalign.adapters.axolotl.GeoAlignPlugin]`: curates the rollouts of `rl: grpo`."""

    def get_input_args(self) -> str:
        """The path of what the plugin adds to Axolotl's schema."""
        return f"{GeoAlignArgs.__module__}.{GeoAlignArgs.__qualname__}"

    def register(self, cfg: Any) -> None:
        """Reads the section, before Axolotl checks the configuration, and names our trainer in it.

        Raises:
            ConfigError: a setting is unknown or out of range.
            UnsupportedError: a version of Axolotl that the adapter is not written for, or a trainer of the user's.
        """
        check_engine("axolotl")
        settings = read_settings(cfg.get(SECTION))
        own = cfg.get("trainer_cls")
        refuse(
            {
                f"trainer_cls: {own}: expected to be left out, as {type(self).__name__} sets it; a trainer of your own "
                "is made of GeoAlignMixin and needs no plugin": own not in (None, TRAINER)
            }
        )
        cfg["trainer_cls"] = TRAINER
        _registered[:] = [settings]

    def pre_model_load(self, cfg: Any) -> None:
        """Raises UnsupportedError for what this training cannot carry out, before the model is loaded."""
        refuse(refusals(cfg))


def read_settings(section: Mapping[str, Any] | None) -> StateSettings:
    """The settings of the section `geoalign`; None: all defaults."""
    if isinstance(section, Mapping) and "seed" in section:
        raise ConfigError(f"{SECTION}.seed: expected to be left out; curators draw by Axolotl's own `seed`")
    place = "such as {curator: denoise}"
    return read_section(StateSettings, section, engine="Axolotl", path=SECTION, place=place)


def registered_settings() -> StateSettings:
    """The settings of the configuration that Axolotl read last; ConfigError where it did not load the plugin."""
    if not _registered:
        raise ConfigError(f"trainer_cls: {TRAINER}: expected GeoAlignPlugin among `plugins`, which reads the settings")
    return _registered[0]


def refusals(cfg: Any) -> dict[str, Any]:
    """What is refused of a configuration that Axolotl has checked: the message, and whether it holds."""
    kind = cfg.get("rl")
    kind = getattr(kind, "value", kind)
    grpo = cfg.get("trl") or {}
    asynchronous = [name for name in ("async_prefetch", "use_data_producer") if grpo.get(name)]
    parallel = cfg.get("context_parallel_size") or 1
    return {
        f"rl: {kind}: there are no groups of rewards to curate; leave GeoAlignPlugin out of `plugins`": kind
        not in ("grpo", "gdpo"),
        f"trl.{''.join(asynchronous[:1])}: Axolotl's asynchronous trainer scores and shapes its batches by code of its "
        "own; set it to false": asynchronous,
        f"context_parallel_size: {parallel}: a process has parts of rows; set it to 1": parallel > 1,
    }
