"""For `swift rlhf --external_plugins`: curates with the YAML file that GEOALIGN_SWIFT names, else all defaults."""

from __future__ import annotations

from geoalign.adapters.swift.choice import install

install()
