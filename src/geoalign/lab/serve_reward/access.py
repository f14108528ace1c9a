"""Who may use the server: a bearer token, and addresses that other machines cannot reach."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import ip_address
from typing import Any

from fastapi.responses import JSONResponse

from geoalign.errors import ConfigError

_App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

# Says that the server is there, and nothing about what it serves.
_OPEN_PATHS = ("/health",)


class BearerToken:
    """Refuses requests without the token, before a byte of their body is read; the comparison takes constant time."""

    def __init__(self, app: _App, token: str) -> None:
        self.app = app
        self.expected = f"Bearer {token}".encode()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """One request, as ASGI defines it."""
        if scope["type"] == "http" and scope["path"] not in _OPEN_PATHS:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self.expected):
                refusal = JSONResponse(
                    {"detail": "Authorization: expected 'Bearer' and this server's token"},
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)


def check_host(host: str, *, token: str | None, allow_without_token: bool) -> None:
    """Raises ConfigError for an address that other machines reach, unless there is a token or the user insists."""
    if token is not None or allow_without_token or _is_loopback(host):
        return
    raise ConfigError(
        f"host: expected a loopback address such as 127.0.0.1, as there is no token, got {host!r}, which other "
        f"machines may reach: name a variable with a token by --token-env, or insist by --allow-without-token"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
