"""The versions of Trinity-RFT that the adapter was made for."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from geoalign.errors import MissingExtraError, UnsupportedError

_SUPPORTED = "0.6"


def check_version(found: str | None = None) -> None:
    """Checks the installed Trinity-RFT, or the version given.

    Raises:
        MissingExtraError: it is not installed.
        UnsupportedError: it is older or newer than 0.6.
    """
    if found is None:
        try:
            found = version("trinity-rft")
        except PackageNotFoundError as error:
            raise MissingExtraError(
                "trinity-rft is not installed: pip install 'geoalign[trinity]', in an environment of its own"
            ) from error
    if ".".join(found.split(".")[:2]) != _SUPPORTED:
        raise UnsupportedError(f"trinity-rft {found}: expected {_SUPPORTED}; pip install 'trinity-rft>=0.6,<0.7'")
