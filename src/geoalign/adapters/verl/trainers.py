"""The curated forms of verl's three trainers, under names of their own in verl's registry."""

from __future__ import annotations

from verl.trainer.ppo.v1 import PPOTrainerColocateAsync, PPOTrainerSeparateAsync, PPOTrainerSync, register_trainer

from geoalign.adapters.verl.mixin import CuratedSteps


@register_trainer("geoalign_sync")
class GeoAlignTrainerSync(CuratedSteps, PPOTrainerSync):
    """`trainer.v1.trainer_mode=geoalign_sync`: verl's synchronous trainer with a curator."""

    base_mode = "sync"


@register_trainer("geoalign_colocate_async")
class GeoAlignTrainerColocateAsync(CuratedSteps, PPOTrainerColocateAsync):
    """`trainer.v1.trainer_mode=geoalign_colocate_async`: verl's colocated asynchronous trainer with a curator."""

    base_mode = "colocate_async"


@register_trainer("geoalign_separate_async")
class GeoAlignTrainerSeparateAsync(CuratedSteps, PPOTrainerSeparateAsync):
    """`trainer.v1.trainer_mode=geoalign_separate_async`: verl's separated asynchronous trainer with a curator.

    Each of its `parameter_sync_step` mini-batches is curated by itself.
    """

    base_mode = "separate_async"
