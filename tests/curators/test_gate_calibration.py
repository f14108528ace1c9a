"""On pure noise the consensus gate opens as rarely as its level says: 2.5% of the calls at 0.95."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from scipy.stats import t as student

from geoalign import GeoAlign, ProjectorConfig, Rollouts
from geoalign.errors import ConfigError

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
TINY = ProjectorConfig(layers=2, hidden_dim=8, output_dim=4, steps=4)


def noise(kind, draw, groups=16, size=8, d=32):
    rows = groups * size
    rewards = torch.randn(rows, generator=draw)
    return Rollouts(
        rewards=(rewards > 0).float() if kind == "binary" else rewards,
        groups=torch.arange(groups).repeat_interleave(size),
        hidden=torch.randn(rows, d, generator=draw),
    )


def judged(calls, kind, **settings):
    """How far above chance each call's accuracy lies, as a standard normal number, if its interval is right.

    One curator, new noise in each call; the t statistic of the interval taken through Student's and the normal curve.
    """
    draw = torch.Generator().manual_seed(1)
    curator = GeoAlign(min_scores=10**6, **settings)
    found = []
    for _ in range(calls):
        batch = noise(kind, draw)
        metrics = curator.curate(batch, generator=draw).metrics
        freedom = metrics["scored_groups"] // (1 if curator.config.scoring == "in_sample" else 2) - 1
        accuracy, high = metrics["new_group_accuracy"], metrics["new_group_accuracy_high"]
        # A tiny projector may answer alike everywhere: accuracy one half, without any error.
        error = max(high - accuracy, 1e-9) / student.ppf(0.975, freedom)
        found.append(ndtri(student.cdf((accuracy - 0.5) / error, freedom)))
    return np.array(found[1:])  # in sample the first call judges nothing


# The variance of n such numbers is 1 with a standard error of sqrt(2 / n). Where the gate opens in 5% of the calls and
# not in 2.5%, it is (1.96 / 1.645)^2 = 1.42; two folds counted as if they were independent make it about 1.9.
@pytest.mark.parametrize("kind", ["continuous", "binary"])
def test_cross_fitted_raw_directions(kind):
    assert judged(100, kind, scoring="cross_fit", projector=None).var() < 1.35


def test_a_warm_started_projector():
    assert judged(60, "binary", scoring="cross_fit", projector=TINY).var() < 1.42


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "binary"])
@pytest.mark.parametrize("scoring", ["cross_fit", "in_sample"])
@pytest.mark.parametrize("projector", [None, TINY], ids=["raw", "warm"])
def test_every_scoring_and_view(kind, scoring, projector):
    # 1,500 calls: the share's standard error is 0.4%; 2.5% and three of them is 3.7%, and 5% lies above that.
    found = judged(1500, kind, scoring=scoring, projector=projector)
    assert (found > ndtri(0.975)).mean() < 0.037
    assert found.var() < 1.12


def test_the_gate_is_closed_on_noise_and_counts_one_fold():
    draw = torch.Generator().manual_seed(0)
    curator = GeoAlign(scoring="cross_fit", projector=None, consensus_gate=0.95)
    for calls in range(1, 4):
        metrics = curator.curate(noise("continuous", draw, groups=17), generator=draw).metrics
        assert metrics["gate_closed"] == 1
        # 17 groups in two folds: nine in the first.
        assert sum(call.shape[1] for call in curator.state_dict()["gate"]) == 9 * calls


@pytest.mark.parametrize(
    ("saved", "asked", "words"),
    [
        ({}, {"scoring": "cross_fit"}, r"geoalign\.scoring: saved with 'in_sample', now 'cross_fit'"),
        ({}, {"projector": replace(TINY, layers=3)}, r"geoalign\.projector\.layers: saved with 2, now 3"),
        ({}, {"projector": None}, r"geoalign\.projector: saved with settings, now None"),
        (
            {"alpha": 0.1, "strategy": "drop"},
            {},
            "alpha: saved with 0.1, now 0.05; .*strategy: .*'drop', now",
        ),
    ],
)
def test_a_state_of_other_scoring_folds_or_view_is_refused_by_name(saved, asked, words):
    curators = [GeoAlign(**{"projector": TINY, **settings}) for settings in (saved, asked)]
    draw = torch.Generator().manual_seed(0)
    curators[0].curate(noise("continuous", draw), generator=draw)
    with pytest.raises(ConfigError, match=words):
        curators[1].load_state_dict(curators[0].state_dict())
    # Nothing was restored: it goes on as new.
    assert curators[1].state_dict()["consensus"] == []
