"""The rewards of a sum by name: out of weighted functions, or out of the numbers that rows carry."""

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from monitored import METRICS

from geoalign.adapters import decision as step
from geoalign.adapters.assignment import assign
from geoalign.adapters.decision import (
    check_can_run,
    decide,
    decision_metrics,
    make_session,
    metrics_to_log,
    named_components,
    named_fields,
    prefixed_metrics,
    summed_components,
)
from geoalign.adapters.settings import SlimeSettings, StateSettings, TrinitySettings
from geoalign.curators.baselines.reshaped_advantages import GRPO
from geoalign.curators.baselines.subsets import PODS
from geoalign.curators.chain import Chain
from geoalign.curators.curator import identity
from geoalign.curators.denoise import Denoise
from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.monitor import Monitor
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
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "GeoAlign could not act on the first batch"
    ]
    assert session.calls == 2


def decided(curator, **changes):
    hidden = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    rewards = torch.rand(64, generator=torch.Generator().manual_seed(1)).round()
    given = Rollouts(rewards=rewards, groups=torch.arange(64) // 8, hidden=hidden)
    return decide(CurationSession(curator, seed=0), replace(given, **changes))


@pytest.mark.parametrize(
    ("curator", "own"),
    [
        (GeoAlign(projector=None, min_scores=8), {"pairs", "new_group_accuracy"}),
        (Denoise(), {"identified", "recovered"}),
        (Monitor(curator=Denoise()), {"identified", "false_positive_rate", "false_negative_rate"}),
        (Chain([GeoAlign(projector=None, min_scores=8), PODS()]), {"pairs", "new_group_accuracy"}),
        (GRPO(), {"curated_reward"}),
    ],
)
def test_five_metrics_are_logged_by_default_and_all_where_they_are_asked_for(curator, own):
    decision = decided(curator)
    shared = {"anomalous_share", "changed_share", "seconds"} if curator.acts_on else {"anomalous_share", "seconds"}
    # What is undefined in a batch (accuracies in the first one, scores of a curator that gives none) is left out.
    expected = {name for name in shared | own if not math.isnan(decision.metrics.get(name, math.nan))}
    assert set(metrics_to_log(decision.metrics, curator)) == {f"geoalign/{name}" for name in expected}
    assert metrics_to_log(decision.metrics, curator, "all") == prefixed_metrics(decision.metrics)


def test_what_went_wrong_is_logged_where_it_did():
    rewards = torch.rand(64, generator=torch.Generator().manual_seed(1)).round()
    rewards[3] = NAN
    decision = decided(GeoAlign(projector=None, min_scores=128), rewards=rewards)
    metrics = {**decision.metrics, "member_2/gate_closed": 1.0, "rows_without_answer": 0.0}
    found = metrics_to_log(metrics, GeoAlign())
    wrong = {"unscored_rows": 1.0, "too_few_scores": 1.0, "member_2/gate_closed": 1.0}
    assert {name: found.get(f"geoalign/{name}") for name in wrong} == wrong
    assert "geoalign/rows_without_answer" not in found
    # Where an engine averages over the batches that have a metric, those in which nothing went wrong count.
    with_zeros = metrics_to_log(metrics, GeoAlign(), zeros=True)
    assert with_zeros["geoalign/rows_without_answer"] == with_zeros["geoalign/gate_closed"] == 0
    assert with_zeros.items() > found.items()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([torch.tensor(1.0), None, torch.tensor(0.0)], [1.0, NAN, 0.0]),
        ([[1.0, 2.0], None, [0.0, 3.0]], [[1.0, 2.0], [NAN, NAN], [0.0, 3.0]]),
    ],
)
def test_a_field_that_a_row_without_a_reward_lacks_is_nan_there(values, expected):
    """Also where a number is a tensor without a dimension."""
    rows = [{} if value is None else {"truth": value} for value in values]
    rewards = torch.tensor([1.0, NAN, 0.0])
    found = named_fields({"true_rewards": "truth"}, rows, rewards, setting="rollout_fields", source="the row")
    torch.testing.assert_close(found["true_rewards"], torch.tensor(expected), equal_nan=True)


def test_shares_of_what_looks_wrong_and_of_what_was_changed():
    rewards = torch.tensor([1.0, 0, 1, 0, NAN, 1, 1, 0])
    rollouts = Rollouts(rewards=rewards, groups=torch.zeros(8, dtype=torch.long))
    curation = replace(
        identity(rollouts),
        source=torch.tensor([0, 0, 2, 3, 4, 5, 6]),
        rewards=torch.tensor([1.0, 1, 0.5, 0, NAN, 1, 1]),
        weights=torch.tensor([1.0, 1, 1, 0.5, 0, 1, 1]),
        scores=torch.zeros(8),
        anomalous=torch.tensor([False, True, True, False, True, False, False, False]),
    )
    metrics = decision_metrics(curation, rollouts, assign(curation, rollouts.groups))
    # Of seven scored rows two look wrong; one was replaced, one shaped, one weighed, one left out.
    assert metrics["anomalous_share"] == pytest.approx(2 / 7)
    assert metrics["changed_share"] == pytest.approx(4 / 7)
    unchanged = identity(rollouts)
    unscored = decision_metrics(unchanged, rollouts, assign(unchanged, rollouts.groups))
    assert math.isnan(unscored["anomalous_share"])
    assert unscored["changed_share"] == 0


def test_what_is_empty_is_no_answer():
    given = [[], "", None, ["4"], np.int64(5), 0, "x"]
    assert step.as_answers(given) == [None, None, None, "['4']", "5", "0", "x"]


def test_numbers_of_the_rows_and_nan_where_there_is_no_reward():
    rows = [{"verdict": True, "text": "a"}, None, {"verdict": 0, "format": 0.1}]
    found = named_components(["verdict"], rows, torch.tensor([1.0, NAN, 0.1]), source="numbers")
    torch.testing.assert_close(found["components"]["verdict"], torch.tensor([1.0, NAN, 0.0]), equal_nan=True)
    assert found["components"]["verdict"].dtype == torch.float32
    # Nothing is known of a batch in which nothing was scored.
    unknown = named_components(["x"], [None], torch.tensor([NAN]), source="numbers")
    assert unknown["components"]["x"].isnan().all()


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
    session = make_session(load_settings(kind, plain), how="{need}")
    assert session.curator.components == ("verdict",)
    verdict = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    rewards = verdict + torch.arange(8)
    rollouts = Rollouts(
        rewards=rewards,
        groups=torch.arange(8) // 4,
        answers=["a", "a", "b", "a", "b", "a", "a", "b"],
        components={"verdict": verdict},
    )
    decision = decide(session, rollouts)
    assert bool((decision.curation.scores != 0).any())
    assert torch.equal(decision.assignment.rewards, rewards)
    assert set(prefixed_metrics(decision.metrics)) >= METRICS


@pytest.mark.parametrize(
    ("curator", "words"),
    [
        ("majority_vote", "MajorityVote requires answers: expected set answers, got none"),
        (
            "labelled_probe",
            "LabelledProbe requires trusted: expected labelled_rollouts, which TRL's adapter alone",
        ),
        ("appeals", "Appeals requires second_rewards: expected second_verifier, such as math_verify, got none"),
    ],
)
def test_what_gives_a_missing_field_is_said(curator, words):
    with pytest.raises(ConfigError, match=words):
        check_can_run(CurationSession(curator, seed=0), (), how="set {need}")
