"""What the adapter refuses by name. Imports no Trinity."""

from __future__ import annotations

from collections.abc import Collection

from geoalign.adapters.decision import refuse

_INSTEAD = "name geoalign.adapters.trinity.GeoAlignAdvantage as algorithm.advantage_fn instead of this operator"


def check_operator(curator: str, acts_on: Collection[str]) -> None:
    """Raises UnsupportedError where a curator of this name acts on what comes after every operator.

    Asked when the operator is made, of what the curator declares, and in every batch, of what it did: the first flag of
    one that declares nothing may be hours away.
    """
    after = f"advantages, which come after every operator: {_INSTEAD}"
    refuse(
        {
            f"{curator} weighs {after}": "weights" in acts_on,
            f"{curator} gives {after}": "advantages" in acts_on,
        }
    )
