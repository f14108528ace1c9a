"""A limit of time for code of others that runs in this process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfTime(BaseException):
    """Raised inside code that ran too long. It is no Exception, so that `except Exception` there does not keep it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises OutOfTime inside the block once so many seconds have passed, in whatever Python code it is then.

    A signal interrupts the main thread, even where it sleeps or waits for a network. It is SIGURG, which others ignore:
    verifiers such as Math-Verify have limits of their own by SIGALRM. In other threads, and on systems without such
    signals, nothing can interrupt a block, and there is no limit.
    """
    can_interrupt = hasattr(signal, "pthread_kill") and threading.current_thread() is threading.main_thread()
    if not can_interrupt:
        yield
        return
    thread = threading.get_ident()
    is_over = False

    def interrupt(*_: Any) -> None:
        if not is_over:
            raise OutOfTime(f"no verdict within {seconds:g} seconds")

    timer = threading.Timer(seconds, signal.pthread_kill, (thread, signal.SIGURG))
    timer.daemon = True
    before = signal.signal(signal.SIGURG, interrupt)
    timer.start()
    try:
        yield
    finally:
        # First of all: a signal that comes from here on says nothing any more.
        is_over = True
        timer.cancel()
        signal.signal(signal.SIGURG, signal.SIG_DFL if before is None else before)
