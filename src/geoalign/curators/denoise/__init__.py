"""Rewards denoised by hidden states, agreement and a noise model."""

from geoalign.curators.denoise.curator import Denoise, DenoiseConfig

__all__ = ["Denoise", "DenoiseConfig"]
