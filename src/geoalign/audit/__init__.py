"""Audits of rollouts that exist already: which rewards look wrong, and what is certain about the verifier.

The package is a function as well::

    from geoalign import audit

    report = audit("rollouts.jsonl")

`geoalign.audit.python.audit` describes its arguments, and the report is a `geoalign.audit.results.AuditReport`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """This package with a call: the name `geoalign.audit` is that of the package wherever one of its modules is used."""

    def __call__(self, *rollouts: Any, **options: Any) -> Any:
        """Audits files of rollouts, as `geoalign.audit.python.audit` does."""
        from geoalign.audit.python import audit

        return audit(*rollouts, **options)


sys.modules[__name__].__class__ = _CallableModule
