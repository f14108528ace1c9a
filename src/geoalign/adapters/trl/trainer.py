"""TRL's GRPO trainer with a curator."""

from __future__ import annotations

from trl import GRPOTrainer

from geoalign.adapters.trl.mixin import GeoAlignMixin


class GeoAlignGRPOTrainer(GeoAlignMixin, GRPOTrainer):
    """`trl.GRPOTrainer` whose generation batches pass through a curator before they enter the loss.

    Takes every argument of `trl.GRPOTrainer`, and those of `GeoAlignMixin` as keywords.
    """
