"""One curator's training: draws of its own, calls counted, and a file that another process goes on from."""

import pytest
import torch

from geoalign.curators.base import Curator, identity
from geoalign.curators.baselines.subsets import PODS
from geoalign.curators.checkpoint import load_state, save_state
from geoalign.curators.controls import Random
from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.session import STATE_FILE, CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.types import Rollouts

SMALL = {"projector": {"layers": 1, "steps": 2}, "min_scores": 2}


def rollouts(seed: int = 0) -> Rollouts:
    draw = torch.Generator().manual_seed(seed)
    return Rollouts(
        rewards=torch.randn(32, generator=draw),
        groups=torch.arange(4).repeat_interleave(8),
        hidden=torch.randn(32, 8, generator=draw),
    )


def session(seed: int = 3) -> CurationSession:
    return CurationSession(GeoAlign(**SMALL), seed=seed)


class Greedy(Curator):
    """Draws from torch's global generator, as no curator should."""

    config_class = type(PODS().config)

    def curate(self, rollouts, *, generator=None, details=False):
        torch.rand(3)
        return identity(rollouts)


def same(first, second) -> bool:
    return torch.equal(first.source, second.source) and torch.equal(
        first.scores.nan_to_num(-1), second.scores.nan_to_num(-1)
    )


def restored(path, into: CurationSession) -> CurationSession:
    into.load(path, setting="resume", otherwise="start anew")
    return into


def test_a_restored_session_goes_on_bit_for_bit(tmp_path):
    path = tmp_path / "deep" / STATE_FILE
    whole = session()
    whole.curate(rollouts(0))
    whole.calls += 1
    whole.save(path)
    other = restored(path, session(seed=99))
    assert other.calls == 1
    assert same(whole.curate(rollouts(1)), other.curate(rollouts(1)))
    assert not same(session(seed=4).curate(rollouts(1)), other.curate(rollouts(1)))


def test_what_it_refuses_to_load(tmp_path):
    path = tmp_path / STATE_FILE
    with pytest.raises(InputError, match=rf"resume: expected {STATE_FILE} in .*, got none; start anew"):
        restored(path, session())
    session().save(path)
    with pytest.raises(InputError, match=r"expected the state of PODS, got that of GeoAlign .*start anew"):
        restored(path, CurationSession(PODS(m=2), seed=0))
    state = load_state(path)
    for gone in ("curator", "generator", "calls"):
        save_state(path, {name: value for name, value in state.items() if name != gone})
        with pytest.raises(InputError, match="expected the keys curator, generator and calls"):
            restored(path, session())
    save_state(path, {**state, "curator": {"calls": 1}})
    with pytest.raises(ConfigError, match="missing"):
        restored(path, session())


def test_global_generators_are_left_alone():
    before = torch.get_rng_state()
    CurationSession(Greedy(m=2), seed=0).curate(rollouts())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_curation_of_another_batch_is_refused():
    class Short(Greedy):
        def curate(self, rollouts, *, generator=None, details=False):
            return identity(rollouts.take(torch.arange(5)))

    with pytest.raises(InputError, match=r"Curation.scores: expected 32 rows, got 5"):
        CurationSession(Short(m=2), seed=0).curate(rollouts())


def test_fields_that_nobody_brings():
    assert session().missing_fields([]) == []

    class Needy(Random):
        requires = ("hidden", "answers", "true_rewards")

    assert CurationSession(Needy(), seed=0).missing_fields(["answers"]) == ["true_rewards"]
