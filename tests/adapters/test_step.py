"""The rewards of a sum by name: out of weighted functions, or out of the numbers that rows carry."""

import numpy as np
import pytest
import torch
from monitored import METRICS

from geoalign.adapters import step
from geoalign.adapters.settings import SlimeSettings, StateSettings, TrinitySettings
from geoalign.adapters.step import check_curator, decide, make_session, named, named_components, summed_components
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
    assert session.curator.components == ("verdict",)
    verdict, group = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]), torch.arange(8) // 4
    rewards, parts = verdict + torch.arange(8), {"verdict": verdict}
    decision = decide(session, Rollouts(rewards=rewards, groups=group, answers=list("aababaab"), components=parts))
    assert bool((decision.curation.scores != 0).any())
    assert torch.equal(decision.assignment.rewards, rewards)
    assert set(named(decision.metrics)) >= METRICS


@pytest.mark.parametrize(
    ("curator", "engine", "words"),
    [
        ("majority_vote", "slime", "MajorityVote requires answers: expected set answers, got none"),
        (
            "labelled_probe",
            "TRL",
            "LabelledProbe requires trusted: expected labelled_rollouts, which TRL's adapter alone",
        ),
        (
            "appeals",
            "verl",
            "Appeals requires second_rewards: expected a second verifier .* TRL's adapter alone can ask",
        ),
        ("appeals", "TRL", "Appeals requires second_rewards: expected set second_rewards, got none"),
    ],
)
def test_what_gives_a_missing_field_is_said(curator, engine, words):
    with pytest.raises(ConfigError, match=words):
        check_curator(CurationSession(curator, seed=0), (), engine=engine, how="set {need}")
