"""Rewards: verified answers, and their deliberate corruption."""

from geoalign.rewards.base import RewardSource
from geoalign.rewards.boxed import last_boxed
from geoalign.rewards.corruption import RewardWithFlips, flip_mask
from geoalign.rewards.verified import VerifiedReward

__all__ = ["RewardSource", "RewardWithFlips", "VerifiedReward", "flip_mask", "last_boxed"]
