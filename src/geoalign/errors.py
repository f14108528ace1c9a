"""The errors of the package: one root, each member also a standard type."""

from __future__ import annotations


class GeoAlignError(Exception):
    """Root of every error that this package raises on purpose."""


class InputError(GeoAlignError, ValueError):
    """A tensor or argument is not what a function expects; named with what was expected, what came, where."""


class ConfigError(GeoAlignError, ValueError):
    """A setting is unknown or out of range; the message names the key and the nearest known one, if any."""


class UnsupportedError(GeoAlignError, NotImplementedError):
    """An engine or combination that is refused by name rather than carried out wrongly."""


class MissingExtraError(GeoAlignError, ImportError):
    """An optional dependency is absent; the message names the extra to install."""


class RunFolderError(GeoAlignError, RuntimeError):
    """A run folder is unreadable, incomplete, of another schema version, or in use."""


class ServiceError(GeoAlignError, RuntimeError):
    """A server refuses a request, or answers with something else than it should; the message has what it said."""


class UnscoredError(GeoAlignError, RuntimeError):
    """Too many responses of a batch could not be scored; the message has how many, and why."""


class ContractError(GeoAlignError, AssertionError):
    """A curator breaks a promise of the contract (`geoalign.testing`); the message names the promise, and how."""
