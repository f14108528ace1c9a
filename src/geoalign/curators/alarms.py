"""Warnings and alarms of curators: in the log and, of an alarm, as an alert where trackio or W&B tracks the run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from geoalign.text import shortened

_LOG = logging.getLogger(__name__)
# Both have `alert` and `AlertLevel`.
_TRACKERS = ("trackio", "wandb")
# W&B takes fewer than 64 characters.
_LONGEST_TITLE = 60
_ON_TRIAL: ContextVar[bool] = ContextVar("on_trial", default=False)


@contextmanager
def on_trial() -> Iterator[None]:
    """Within, `warn` and `raise_alarm` say nothing: a curation is tried and thrown away; one that counts follows."""
    before = _ON_TRIAL.set(True)
    try:
        yield
    finally:
        _ON_TRIAL.reset(before)


def warn(log: logging.Logger, message: str, *args: object) -> None:
    """Logs a warning of a curator, unless it is on trial."""
    if not _ON_TRIAL.get():
        log.warning(message, *args)


def raise_alarm(title: str, text: str) -> None:
    """Logs `text` as a warning, and hands both to trackio and to W&B where they are in use; nothing on trial.

    In use is what the process has imported and has a run of. Trackio's runs belong to the context in which
    `trackio.init` was called, so this thread must have one. Whatever goes wrong there stops no training.

    Args:
        title: a few words.
        text: a sentence with the numbers.
    """
    if _ON_TRIAL.get():
        return
    _LOG.warning("%s", text)
    for name in _TRACKERS:
        tracker = sys.modules.get(name)
        if tracker is None:
            continue
        try:
            tracker.alert(title=shortened(title, _LONGEST_TITLE), text=text, level=tracker.AlertLevel.WARN)
        except Exception as error:
            # Without a run both raise, too.
            _LOG.info("%s took no alert: %s: %s", name, type(error).__name__, error)
