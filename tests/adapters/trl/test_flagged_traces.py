"""Flagged rollouts as traces of trackio, which a stand-in records; tests/real has a training with the real one."""

import math
import sys
from types import ModuleType

import pytest
import torch
from curations import curation

from geoalign.adapters.trl import CuratedStep
from geoalign.adapters.trl.flagged_traces import FLAGGED, FlaggedTraces, flagged_rows
from geoalign.types import Rollouts


def step(rows=6, answers=("7", "7", "7", "8", None, "9"), **changes):
    """One group whose last rows are flagged, by changes of the curation."""
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 1.0, 0.0, 0.0, math.nan, 1.0]),
        groups=torch.zeros(rows, dtype=torch.long),
        answers=None if answers is None else list(answers),
    )
    flagged = {
        "scores": torch.tensor([-1.0, -2.0, 0.5, math.nan, -3.0, 2.0]),
        "anomalous": torch.tensor([False, False, True, True, False, True]),
        **changes,
    }
    return CuratedStep(
        step=4,
        generation=2,
        rollouts=rollouts,
        curation=curation(rollouts, **flagged),
        prompts=["1+6="] * rows,
        responses=[f"{row}" for row in range(rows)],
        lengths=torch.ones(rows).long(),
    )


@pytest.fixture
def trackio(monkeypatch):
    """A module that keeps what is logged."""
    module = ModuleType("trackio")
    module.logged = []
    module.Trace = lambda messages, metadata: {"messages": messages, "metadata": metadata}
    module.log = lambda metrics, step: module.logged.append((metrics, step))
    monkeypatch.setitem(sys.modules, "trackio", module)
    return module


def logged(trackio, curated):
    """The traces of a curation, the most suspicious first."""
    traces = FlaggedTraces()
    traces(curated)
    traces.log(5)
    ((metrics, _),) = trackio.logged
    return metrics[FLAGGED]


def test_flagged_rows_come_by_their_scores_and_those_without_last():
    assert flagged_rows(step()) == [5, 2, 3]


def test_a_trace_is_the_rollout_with_what_was_decided(trackio):
    first, _, last = logged(trackio, step())
    assert first == {
        "messages": [{"role": "user", "content": "1+6="}, {"role": "assistant", "content": "5"}],
        "metadata": {
            "score": 2.0,
            "reward": 1.0,
            "outcome": "kept as it was",
            "generation": 2,
            "answer": "9",
            "answers to its prompt": "7: 3 times, mean reward 0.667; 8: once, mean reward 0; "
            "no answer: once, no reward; 9: once, mean reward 1",
        },
    }
    assert "score" not in last["metadata"]
    assert trackio.logged[0][1] == 5


@pytest.mark.parametrize(("changes", "outcome"), [
    ({"rewards": [1.0, 1.0, 0.75, 0.0, 0.0, 0.25]}, "kept with reward 0.25"),
    ({"weights": [1.0, 1.0, 1.0, 1.0, 1.0, 0.5]}, "kept with weight 0.5"),
    ({"source": [0, 1, 2, 3, 4, 0]}, "replaced by another response"),
    ({"source": [0, 1, 2, 3, 4]}, "left out"),
    ({"source": [5, 0]}, "kept as it was"),
])  # fmt: skip
def test_the_outcome_of_a_flagged_row(trackio, changes, outcome):
    assert logged(trackio, step(**changes))[0]["metadata"]["outcome"] == outcome


def test_without_answers_a_trace_has_none(trackio):
    assert set(logged(trackio, step(answers=None))[0]["metadata"]) == {"score", "reward", "outcome", "generation"}


def test_a_curation_is_logged_once(trackio):
    traces = FlaggedTraces()
    traces(step())
    traces.log(5)
    traces.log(6)
    assert [at for _, at in trackio.logged] == [5]


def test_a_failure_of_trackio_stops_nothing(trackio):
    def fails(metrics, step):
        raise OSError("no space left")

    trackio.log = fails
    traces = FlaggedTraces()
    traces(step())
    traces.log(5)
