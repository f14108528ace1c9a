"""Rewards: verified answers, and their deliberate corruption."""

from geoalign.boxed import last_boxed
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.rewards.corruption import RewardWithCorruption, corruption_mask
from geoalign.lab.rewards.verified import VerifiedReward

__all__ = ["RewardSource", "RewardWithCorruption", "VerifiedReward", "corruption_mask", "last_boxed"]
