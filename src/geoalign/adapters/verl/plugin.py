"""What `import verl` loads, in the driver and in every Ray worker (entry-point group `verl.plugins`).

Without `VERL_ENGINE_VENDOR=geoalign` nothing happens: other runs of verl on the same machine pay nothing. With it, the
engine and the trainers enter verl's own registries. verl swallows what a plug-in raises: so it is logged first.
"""

from __future__ import annotations

import logging
import os

from geoalign.adapters.verl.names import VENDOR, VENDOR_VARIABLE


def switched_on() -> bool:
    """Whether the environment of this process asks for the adapter."""
    return os.environ.get(VENDOR_VARIABLE) == VENDOR


def load() -> None:
    """Registers the engine and the trainers with verl.

    Raises:
        UnsupportedError: a version of verl outside the range that the adapter is written for.
    """
    from geoalign.adapters.verl.refusals import check_version

    check_version()
    # Importing them registers them.
    import geoalign.adapters.verl.engine
    import geoalign.adapters.verl.trainers  # noqa: F401


if switched_on():
    try:
        load()
    except Exception:
        logging.getLogger(__name__).exception("geoalign could not be loaded into verl; its trainers are not available")
        raise
