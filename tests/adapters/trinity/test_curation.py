"""Curating one batch after another, with a synchroniser that behaves as Trinity's."""

import asyncio

import pytest
import torch

from geoalign import Rollouts
from geoalign.adapters.settings import TrinitySettings, read_section
from geoalign.adapters.trinity.curation import CurationRun
from geoalign.curators.registry import as_curator
from geoalign.errors import InputError

SMALL = {"type": "geoalign", "alpha": 0.3, "min_scores": 8, "projector": {"hidden_dim": 8, "output_dim": 8, "steps": 5}}


@pytest.fixture
def batch(experience):
    """Makes a batch of 6 tasks x 8 runs: a task's first four runs are right, one of its runs is judged wrongly."""

    def make(number=0, **info):
        draws = torch.Generator().manual_seed(number)
        good = torch.randn(16, generator=torch.Generator().manual_seed(99))
        rows = []
        for task in range(6):
            for run in range(8):
                right = run < 4
                state = torch.randn(16, generator=draws) * 0.3 + (good if right else -good)
                reward = float(right != (run == task % 4))
                rows.append(
                    experience(task, run, reward, batch=number, info={"geoalign_hidden": state.tolist(), **info})
                )
        return rows

    return make


def test_it_decides_what_the_library_decides(batch):
    rows = batch()
    hidden = torch.tensor([row.info["geoalign_hidden"] for row in rows])
    rewards = torch.tensor([row.reward for row in rows])
    run = CurationRun({"curator": SMALL, "seed": 3})
    found = asyncio.run(run.decide(rows))
    groups = torch.arange(6).repeat_interleave(8)
    wanted = as_curator(read_section(TrinitySettings, {"curator": SMALL}, engine="it").curator).curate(
        Rollouts(rewards=rewards, groups=groups, hidden=hidden), generator=torch.Generator().manual_seed(3)
    )
    assert torch.equal(found.curation.source, wanted.source)
    assert torch.equal(found.assignment.rewards, wanted.rewards)
    assert found.metrics["replaced"] == found.metrics["replaced_rows"] > 0
    assert found.metrics["raw_reward"] == pytest.approx(rewards.mean().item())
    assert "geoalign_hidden" not in rows[0].info


def test_batches_are_taken_one_by_one(batch):
    """Two batches that finish at once give what they give one after the other."""

    async def at_once():
        run = CurationRun({"curator": SMALL})
        return await asyncio.gather(*(run.decide(batch(number)) for number in range(3)))

    async def in_turn():
        run = CurationRun({"curator": SMALL})
        return [await run.decide(batch(number)) for number in range(3)]

    for one, other in zip(asyncio.run(at_once()), asyncio.run(in_turn()), strict=True):
        assert torch.equal(one.curation.scores, other.curation.scores)
        assert torch.equal(one.curation.source, other.curation.source)


def test_no_states_from_anywhere(batch):
    rows = batch()
    for row in rows:
        row.info.clear()
    with pytest.raises(InputError, match="GeoAlign needs hidden states: expected 'geoalign_hidden'"):
        asyncio.run(CurationRun({"curator": SMALL}).decide(rows))
    # A curator that needs none does not look for them.
    assert asyncio.run(CurationRun({"curator": "reward_distance"}).decide(rows)).rollouts.hidden is None
