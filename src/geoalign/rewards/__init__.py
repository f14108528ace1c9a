"""Rewards: verified answers, and their deliberate corruption."""

from geoalign.rewards.base import RewardSource
from geoalign.rewards.boxed import last_boxed
from geoalign.rewards.corruption import RewardWithCorruption
from geoalign.rewards.slots import corruption_mask
from geoalign.rewards.verified import VerifiedReward

__all__ = ["RewardSource", "RewardWithCorruption", "VerifiedReward", "corruption_mask", "last_boxed"]
