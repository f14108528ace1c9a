"""An alarm is a warning in the log and, where trackio is in use, an alert of its run."""

import contextvars
import sys
from enum import StrEnum
from types import ModuleType

import pytest

from geoalign.curators.alarms import raise_alarm


class AlertLevel(StrEnum):
    """As `trackio.AlertLevel`."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@pytest.fixture
def trackio(monkeypatch):
    """A module that has a run in its context, alerts, and raises without a run, as trackio does."""
    module = ModuleType("trackio")
    current_run = contextvars.ContextVar("current_run", default=None)

    def alert(title, text=None, level=AlertLevel.WARN, webhook_url=None):
        run = current_run.get()
        if run is None:
            raise RuntimeError("Call trackio.init() before trackio.alert().")
        run(title=title, text=text, level=level)

    module.alert = alert
    module.AlertLevel = AlertLevel
    module.current_run = current_run
    monkeypatch.setitem(sys.modules, "trackio", module)
    return module


def test_an_alarm_is_an_alert_of_the_run(trackio, caplog):
    alerts = []
    trackio.current_run.set(lambda **alert: alerts.append(alert))
    raise_alarm("rate", "the rate is 0.3")
    assert alerts == [{"title": "rate", "text": "the rate is 0.3", "level": AlertLevel.WARN}]
    assert caplog.messages == ["the rate is 0.3"]


def test_without_a_run_or_without_trackio_it_is_logged(trackio, caplog, monkeypatch):
    raise_alarm("rate", "without a run")
    monkeypatch.delitem(sys.modules, "trackio")
    raise_alarm("rate", "without trackio")
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["without a run", "without trackio"]
    assert "trackio" not in sys.modules


def test_a_failure_of_trackio_stops_nothing(trackio, caplog):
    def fails(**alert):
        raise OSError("no space left")

    trackio.current_run.set(fails)
    raise_alarm("rate", "the rate is 0.3")
    assert "the rate is 0.3" in caplog.messages
