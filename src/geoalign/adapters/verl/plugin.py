"""What `import verl` loads, in the driver and in every Ray worker (entry-point group `verl.plugins`).

Without `VERL_ENGINE_VENDOR=geoalign` nothing happens: other runs of verl on the same machine pay nothing. With it, the
engine and the trainers enter verl's own registries. verl swallows what a plug-in raises: so it is logged first.
"""

from __future__ import annotations

import logging
import os

from geoalign.adapters.verl.keys import VENDOR, VENDOR_VARIABLE

if os.environ.get(VENDOR_VARIABLE) == VENDOR:
    try:
        from geoalign.adapters.exports import check_engine

        check_engine("verl")
        # Importing them registers them.
        import geoalign.adapters.verl.engine
        import geoalign.adapters.verl.trainers  # noqa: F401
    except Exception:
        logging.getLogger(__name__).exception("geoalign could not be loaded into verl; its trainers are not available")
        raise
