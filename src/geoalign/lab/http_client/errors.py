"""What can come of a request instead of an answer."""

from __future__ import annotations

from geoalign.errors import ServiceError


class UnreachableError(ServiceError):
    """No answer, or one that says to come again, after `wait` seconds."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class BadReplyError(ServiceError):
    """A reply that is too long, cannot be unpacked, or is not what was asked for."""


class RefusedError(ServiceError):
    """An answer that no other attempt would change, such as a refused token or a redirect."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"HTTP {status}: {said}")
        self.status, self.said = status, said
