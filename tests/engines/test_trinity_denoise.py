"""Run by `make test-trinity`: `denoise` in Trinity-RFT's own pipeline."""

from __future__ import annotations

import asyncio

import pytest
import torch
from trinity_batches import (
    ADVANTAGE,
    GEOALIGN,
    RUNS,
    TASKS,
    by_place,
    disconnect,
    place_of,
    rollouts,
    settings,
    through,
)

# What Trinity-RFT and the packages below it warn about is theirs.
pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]

SOFT = {"type": "denoise", "level": 0.5}  # the planted states agree with three in four rewards


def denoised(folder, curator=SOFT, batch=None, **arguments):
    """What the trainer reads, and the curator's metrics."""
    config = settings(folder, advantage=ADVANTAGE, arguments={"curator": curator, "log_metrics": "all", **arguments})
    rows, metrics = through(config, rollouts() if batch is None else batch)
    prefix = "experience_pipeline/geoalign/"
    return rows, {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}


def test_the_advantages_of_the_denoised_rewards_reach_the_trainer(tmp_path):
    from geoalign.adapters.trinity.experiences import read_rollouts
    from geoalign.curators.denoise import Denoise

    plain = by_place(through(settings(tmp_path / "plain"), rollouts())[0])
    rows, metrics = denoised(tmp_path / "soft")
    assert metrics["states_used"] == 1
    assert metrics["changed_groups"] == 1
    given = rollouts()
    hidden = torch.tensor([row.info["geoalign_hidden"] for row in given])
    wanted = Denoise(level=0.5).curate(read_rollouts(given, hidden=hidden))
    for row, advantage, reward in zip(rows, wanted.advantages, wanted.rewards, strict=True):
        assert torch.equal(row.advantages, advantage * row.action_mask)
        assert torch.equal(row.returns, row.advantages)
        assert row.reward == reward.item()
        before = plain[place_of(row)]
        assert torch.equal(row.tokens, before.tokens)
        assert not torch.equal(row.advantages, before.advantages)


def test_it_goes_on_from_its_state_file_bit_for_bit(tmp_path):
    """Two batches in one pipeline, against the second in a new one that reads the first one's state."""
    from trinity.buffer import get_buffer_reader
    from trinity.buffer.pipelines.experience_pipeline import ExperiencePipeline
    from trinity.common.experience import Experience

    async def uninterrupted(config):
        pipeline = ExperiencePipeline(config)
        await pipeline.prepare()
        for batch in (0, 1):
            await pipeline.process(Experience.serialize_many(rollouts(batch=batch)))
        reader = get_buffer_reader(config.buffer.trainer_input.experience_buffer)
        rows = await reader.read(batch_size=2 * TASKS * RUNS)
        await pipeline.close()
        for end in (pipeline.output, reader):
            await disconnect(end)
        return by_place(row for row in rows if int(row.eid.batch) == 1)

    config = settings(tmp_path / "whole", advantage=ADVANTAGE, arguments={"curator": SOFT})
    whole = asyncio.run(uninterrupted(config))
    assert len(whole) == TASKS * RUNS
    file = str(tmp_path / "state.safetensors")
    denoised(tmp_path / "first", state_file=file)
    resumed, metrics = denoised(tmp_path / "second", batch=rollouts(batch=1), state_file=file)
    assert metrics["states_used"] == 1
    for row in resumed:
        assert torch.equal(row.advantages, whole[place_of(row)].advantages)
    fresh, _ = denoised(tmp_path / "fresh", batch=rollouts(batch=1))
    assert any(not torch.equal(row.advantages, whole[place_of(row)].advantages) for row in fresh)


def test_what_comes_after_advantages_is_refused_at_the_start(tmp_path):
    from geoalign.adapters.trinity import GeoAlignOperator
    from geoalign.errors import UnsupportedError

    for curator in (SOFT, {"type": "chain", "members": [GEOALIGN, SOFT]}):
        with pytest.raises(UnsupportedError, match=r"gives advantages, .*trinity\.GeoAlignAdvantage as algorithm"):
            GeoAlignOperator(curator=curator)
