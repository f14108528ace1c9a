"""Alarms of a training: a warning in the log and, where trackio or W&B tracks the run, an alert there."""

from __future__ import annotations

import logging
import sys

from geoalign.text import shortened

_LOG = logging.getLogger(__name__)
# Both have `alert` and `AlertLevel`.
_TRACKERS = ("trackio", "wandb")
# W&B takes fewer than 64 characters.
_LONGEST_TITLE = 60


def raise_alarm(title: str, text: str) -> None:
    """Logs `text` as a warning, and hands both to trackio and to W&B where they are in use.

    In use is what the process has imported and has a run of. Trackio's runs belong to the context in which
    `trackio.init` was called, so this thread must have one. Whatever goes wrong there stops no training.

    Args:
        title: a few words.
        text: a sentence with the numbers.
    """
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
