"""Nested settings as dotted keys."""

from __future__ import annotations

from geoalign.lab.config.layers import flat


def test_values_by_dotted_key() -> None:
    assert flat({"a": 1, "b": {"c": None, "d": {"e": [1, 2]}}, "f": {}}) == {"a": 1, "b.c": None, "b.d.e": [1, 2]}
