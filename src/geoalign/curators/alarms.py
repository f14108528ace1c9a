"""Alarms of a training: a warning in the log and, where the run is tracked by trackio, an alert there."""

from __future__ import annotations

import logging
import sys

_LOG = logging.getLogger(__name__)


def raise_alarm(title: str, text: str) -> None:
    """Logs `text` as a warning, and hands both to trackio where it is in use.

    In use is trackio where the process has imported it and this thread has a run of it: its runs belong to the context
    in which `trackio.init` was called. Whatever goes wrong there stops no training.

    Args:
        title: a few words.
        text: a sentence with the numbers.
    """
    _LOG.warning("%s", text)
    trackio = sys.modules.get("trackio")
    if trackio is None:
        return
    try:
        trackio.alert(title=title, text=text, level=trackio.AlertLevel.WARN)
    except Exception as error:
        # Without a run trackio raises, too.
        _LOG.info("trackio took no alert: %s: %s", type(error).__name__, error)
