"""ms-swift's GRPO trainer with a curator."""

from __future__ import annotations

from swift.rlhf_trainers.grpo_trainer import GRPOTrainer

from geoalign.adapters.swift.mixin import CuratedGRPO


class GeoAlignGRPOTrainer(CuratedGRPO, GRPOTrainer):
    """`swift rlhf --rlhf_type grpo` whose generation batches pass through a curator before advantages."""
