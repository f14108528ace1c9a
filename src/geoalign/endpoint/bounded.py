"""The HTTP client below `openai`'s, with a limit on what it reads of a reply; imported only where a server is asked."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import httpx2

from geoalign.endpoint.client import BadReplyError

# Unpacked. Scores and completions are nearly all far below 1 MiB; parsed, hostile JSON takes 25 times its length.
MAX_REPLY_BYTES = 3 * 2**20


class BoundedClient(httpx2.AsyncClient):
    """A client whose replies are whole and unpacked; BadReplyError for one that is longer than `MAX_REPLY_BYTES`."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The reply, read to its end."""
        body = bytearray()
        reply = await super().send(request, **{**options, "stream": True})
        async with aclosing(reply), aclosing(reply.aiter_bytes()) as parts:
            async for part in parts:
                body += part
                if len(body) > MAX_REPLY_BYTES:
                    raise BadReplyError(f"{request.url}: an answer of more than {MAX_REPLY_BYTES} bytes")
        wanted = {name: reply.headers[name] for name in ("Content-Type", "Retry-After") if name in reply.headers}
        return httpx2.Response(reply.status_code, headers=wanted, content=bytes(body), request=request)
