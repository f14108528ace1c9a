"""An alarm is a warning in the log and, where trackio or W&B is in use, an alert of its run."""

import contextvars
import sys
from enum import StrEnum
from types import ModuleType

import pytest

from geoalign.curators.alarms import raise_alarm


class AlertLevel(StrEnum):
    """As trackio and W&B have it."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@pytest.fixture(params=["trackio", "wandb"])
def tracker(request, monkeypatch):
    """A module that has a run in its context, alerts, and raises without a run, as both do."""
    module = ModuleType(request.param)
    current_run = contextvars.ContextVar("current_run", default=None)

    def alert(title, text=None, level=AlertLevel.WARN):
        run = current_run.get()
        if run is None:
            raise RuntimeError("Call init() before alert().")
        run(title=title, text=text, level=level)

    module.alert = alert
    module.AlertLevel = AlertLevel
    module.current_run = current_run
    for name in ("trackio", "wandb"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, request.param, module)
    return module


def test_an_alarm_is_an_alert_of_the_run(tracker, caplog):
    alerts = []
    tracker.current_run.set(lambda **alert: alerts.append(alert))
    raise_alarm("rate", "the rate is 0.3")
    assert alerts == [{"title": "rate", "text": "the rate is 0.3", "level": AlertLevel.WARN}]
    assert caplog.messages == ["the rate is 0.3"]


def test_a_title_is_short_enough_for_wandb(tracker):
    alerts = []
    tracker.current_run.set(lambda **alert: alerts.append(alert))
    raise_alarm("a rate " * 20, "the rate is 0.3")
    assert len(alerts[0]["title"]) < 64


def test_without_a_run_or_without_a_tracker_it_is_logged(tracker, caplog, monkeypatch):
    raise_alarm("rate", "without a run")
    monkeypatch.delitem(sys.modules, tracker.__name__)
    raise_alarm("rate", "without a tracker")
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["without a run", "without a tracker"]
    assert tracker.__name__ not in sys.modules


def test_a_failure_of_a_tracker_stops_nothing(tracker, caplog):
    def fails(**alert):
        raise OSError("no space left")

    tracker.current_run.set(fails)
    raise_alarm("rate", "the rate is 0.3")
    assert "the rate is 0.3" in caplog.messages
