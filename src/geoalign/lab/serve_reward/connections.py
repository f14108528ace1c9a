"""Connections of the reward server that take their time: each stage of a request has a deadline, and room for so many.

uvicorn has a limit for idle connections that have been answered once, and one for the size of a request's head, but
none for the time that a head or a body may take, and its limit on connections refuses everyone, those who would be
answered at once included.
"""

from __future__ import annotations

import asyncio
import time

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# `_NEXT` is the head of a request after the first: connections kept open do not compete with new ones.
_HEAD, _NEXT, _BODY, _ANSWERED, _CLOSING, _WORK = "head", "next", "body", "answered", "closing", "work"


class BoundedProtocol(H11Protocol):
    """A connection that is closed when a stage of its request takes too long; its class attributes are the settings.

    Where `most_waiting` connections are in the same stage, the one that has been in it longest makes room for the next:
    a client that sends its request at once is served however many others are silent. A refused request (a wrong token)
    never reaches the stage of bodies, in which those of accepted requests arrive.
    """

    head_seconds = 10.0  # from connecting, or the end of the last answer, to the end of a request's head
    body_seconds = 60.0  # from there to the end of its body
    answered_seconds = 2.0  # for the rest of a body that was answered without being read
    reply_seconds = 10.0  # during which a client may take nothing of its answer
    most_waiting = 64

    _stage = _WORK
    _served = False
    _since = 0.0
    _timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first stage begins."""
        super().connection_made(transport)
        self._follow()

    def data_received(self, data: bytes) -> None:
        """May begin another stage; however many pieces a stage comes in, its deadline stays."""
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        """What comes next has a deadline of its own."""
        super().on_response_complete()
        self._served = True
        self._follow(next_request=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        super().connection_lost(exc)
        self._enter(_WORK)

    def pause_writing(self) -> None:
        """The client takes nothing of its answer."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.reply_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It does."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _follow(self, *, next_request: bool = False) -> None:
        if self.transport.is_closing():
            stage = _CLOSING  # what is left to send may never be taken
        elif self.conn.their_state is h11.IDLE:
            stage = _NEXT if self._served else _HEAD
        elif self.conn.their_state is h11.SEND_BODY:
            stage = _ANSWERED if self.cycle.response_complete else _BODY
        else:
            stage = _WORK
        if stage != self._stage or (next_request and stage == _NEXT):
            self._enter(stage)

    def _enter(self, stage: str) -> None:
        self._stage, self._since = stage, time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if stage == _WORK:
            return
        seconds = {_HEAD: self.head_seconds, _NEXT: self.head_seconds, _BODY: self.body_seconds}
        seconds |= {_ANSWERED: self.answered_seconds, _CLOSING: self.reply_seconds}
        self._timer = self.loop.call_later(seconds[stage], self.transport.abort)
        others = (other for other in self.connections if isinstance(other, BoundedProtocol) and other._stage == stage)
        same = [other for other in others if not other.transport.is_closing()]
        if len(same) > self.most_waiting:
            min(same, key=lambda connection: connection._since)._make_room()

    def _make_room(self) -> None:
        """Closes this connection: an answer on its way still arrives, unless the client takes nothing of it."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()
