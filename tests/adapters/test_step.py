"""The rewards of a sum by name: out of weighted functions, or out of the numbers that rows carry."""

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from monitored import METRICS

from geoalign.adapters import step
from geoalign.adapters.settings import SlimeSettings, StateSettings, TrinitySettings
from geoalign.adapters.step import decide, make_session, named, named_components, summed_components, wanted_components
from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError
from geoalign.settings.loading import load_settings
from geoalign.types import Rollouts

NAN = float("nan")


def test_weighted_functions_and_names_that_several_have():
    per_function = torch.tensor([[1.0, 0.2, NAN, 4.0], [0.0, 0.4, 2.0, 5.0]])
    found = summed_components(per_function, torch.tensor([1.0, 0.5, 3.0, 1.0]), ["verdict", "bonus", "f", "f"])
    parts = {name: part.tolist() for name, part in found.items()}
    assert parts == {"verdict": [1.0, 0.0], "bonus": pytest.approx([0.1, 0.2])}


def test_a_first_batch_is_warned_of_once_from_whichever_thread(caplog):
    """In verl a thread decides, while the driver goes on."""
    hidden = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    rollouts = Rollouts(rewards=torch.arange(8.0), groups=torch.arange(8) // 4, hidden=hidden)
    session = CurationSession(GeoAlign(projector=None), seed=0)
    with ThreadPoolExecutor(max_workers=1) as thread, caplog.at_level(logging.WARNING):
        for _ in range(2):
            thread.submit(decide, session, rollouts).result()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["min_scores"]
    assert session.calls == 2


def test_what_is_empty_is_no_answer():
    given = [[], "", None, ["4"], np.int64(5), 0, "x"]
    assert step.as_answers(given) == [None, None, None, "['4']", "5", "0", "x"]


def test_numbers_of_the_rows_and_nan_where_there_is_no_reward():
    rows = [{"verdict": True, "text": "a"}, None, {"verdict": 0, "format": 0.1}]
    found = named_components(["verdict"], rows, torch.tensor([1.0, NAN, 0.1]), source="numbers")
    torch.testing.assert_close(found["components"]["verdict"], torch.tensor([1.0, NAN, 0.0]), equal_nan=True)
    assert found["components"]["verdict"].dtype == torch.float32
    # Nothing is known of a batch in which nothing was scored.
    assert named_components(["x"], [None], torch.tensor([NAN]), source="numbers")["components"]["x"].isnan().all()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": 1.0, "b": 0.5, "c": "x"}, {"a": 1, "b": 2}], "component: expected one of a, b; got 'c'"),
        ([1.0, None], "component: this engine gives one reward: no numbers in that dict; got 'c'"),
    ],
)
def test_what_is_not_there(rows, message):
    with pytest.raises(ConfigError, match=message):
        named_components(["c"], rows, torch.ones(2), source="numbers in that dict")


@pytest.mark.parametrize("kind", [StateSettings, SlimeSettings, TrinitySettings])
def test_a_curator_that_watches_keeps_every_row_under_the_same_names(kind):
    plain = {"curator": {"type": "denoise", "geometry": "none", "component": "verdict"}, "monitor": True}
    session = make_session(load_settings(kind, plain), engine="any", how="{need}")
    assert wanted_components(session.curator) == ["verdict"]
    verdict, group = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]), torch.arange(8) // 4
    rewards, parts = verdict + torch.arange(8), {"verdict": verdict}
    decision = decide(session, Rollouts(rewards=rewards, groups=group, answers=list("aababaab"), components=parts))
    assert bool((decision.curation.scores != 0).any())
    assert torch.equal(decision.assignment.rewards, rewards)
    assert set(named(decision.metrics)) >= METRICS
