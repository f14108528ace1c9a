"""The trainer that Axolotl builds for `rl: grpo` in the place of its own: TRL's adapter over Axolotl's trainer."""

from __future__ import annotations

from typing import Any

from axolotl.core.trainers.grpo.trainer import AxolotlGRPOTrainer

from geoalign.adapters.axolotl.plugin import registered_settings
from geoalign.adapters.grpo_trainer.generation_batch import named_field
from geoalign.adapters.trl.mixin import GeoAlignMixin


class CuratedAxolotlTrainer(GeoAlignMixin, AxolotlGRPOTrainer):
    """Axolotl's GRPO trainer whose generation batches pass through a curator before they enter the loss.

    Its settings are those that `GeoAlignPlugin` read. What is refused is refused as in TRL's adapter.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings = registered_settings()
        fields = {name: named_field(value) for name, value in settings.rollout_fields.items()}
        super().__init__(
            *args,
            curator=settings.curator,
            monitor=settings.monitor,
            hidden_position=settings.hidden_position,
            hidden_layer=settings.hidden_layer,
            rollout_fields=fields,
            log_metrics=settings.log_metrics,
            second_verifier=settings.second_verifier,
            second_verifier_endpoint=settings.second_verifier_endpoint,
            second_verifier_seconds=settings.second_verifier_seconds,
            **kwargs,
        )
