"""Curating one batch after another, with a synchroniser that behaves as Trinity's."""

import asyncio

import pytest
import torch
from trinity_parts import tiny

from geoalign import Rollouts
from geoalign.adapters.settings import TrinitySettings, read_section
from geoalign.adapters.trinity.run import CurationRun
from geoalign.adapters.trinity.states import PublishedWeights
from geoalign.curators.registry import make_curator
from geoalign.errors import ConfigError, InputError, UnsupportedError

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
    wanted = make_curator(read_section(TrinitySettings, {"curator": SMALL}, engine="it").curator).curate(
        Rollouts(rewards=rewards, groups=groups, hidden=hidden), generator=torch.Generator().manual_seed(3)
    )
    assert torch.equal(found.curation.source, wanted.source)
    assert torch.equal(found.placement.rewards, wanted.rewards)
    assert found.metrics["replaced"] == found.metrics["replaced_rows"] > 0
    assert found.metrics["raw_reward"] == pytest.approx(rewards.mean().item())
    assert "geoalign_hidden" not in rows[0].info


def test_state_goes_on_in_a_new_process(batch, tmp_path):
    arguments = {"curator": SMALL, "state_file": str(tmp_path / "deep" / "state.safetensors")}

    async def batches(numbers):
        run = CurationRun(arguments)
        await run.prepare()
        return run, [(await run.decide(batch(number))).curation for number in numbers]

    _, whole = asyncio.run(batches([0, 1, 2]))
    (tmp_path / "deep" / "state.safetensors").unlink()
    asyncio.run(batches([0, 1]))
    run, resumed = asyncio.run(batches([2]))
    assert run.session.calls == 3
    assert torch.equal(resumed[0].source, whole[2].source)
    assert torch.equal(resumed[0].scores, whole[2].scores)


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


def test_curators_that_cannot_be_carried_out():
    with pytest.raises(ConfigError, match="PAR requires reference_rewards: expected rollout_fields"):
        CurationRun({"curator": "par"})
    with pytest.raises(UnsupportedError, match="PFPPOBestRandom inside Trinity-RFT"):
        CurationRun({"curator": {"type": "pf_ppo_br", "mode": "reweight"}})


def test_fields_from_the_info(experience):
    rows = [experience(0, run, float(run == 0), info={"clean": float(run == 1)}) for run in range(4)]
    found = asyncio.run(CurationRun({"curator": "oracle", "rollout_fields": {"true_rewards": "clean"}}).decide(rows))
    assert found.placement.replaced.tolist() == [True, True, False, False]


class Answer:
    """A method of an actor: `.remote()` is awaited."""

    def __init__(self, give):
        self.give = give

    def options(self, **options):
        return self

    def remote(self, *arguments):
        given = self.give(*arguments)
        if hasattr(given, "__aiter__"):
            return given

        async def later():
            return given

        return later()


class Synchronizer:
    """What an operator can ask of Trinity's."""

    def __init__(self):
        self.weights, self.path, self.number, self.reads = None, None, 0, 0
        self.get_latest_model_version = Answer(lambda: self.number)
        self.get_state_dict_meta = Answer(lambda: None if self.weights is None else [])
        self.get_latest_model_path = Answer(lambda: self.path)
        self.get_model_state_dict_iterator = Answer(self._stream)

    async def _stream(self):
        self.reads += 1
        for item in self.weights.items():
            await asyncio.sleep(0)

            async def reference(item=item):
                return item

            yield reference()


@pytest.fixture
def model_path(tmp_path):
    tiny().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def without_states(rows, **info):
    for row in rows:
        row.info = dict(info)
        row.tokens = row.tokens % 400
    return rows


def test_published_weights_are_taken_when_they_are_new(batch, model_path):
    synchronizer = Synchronizer()

    async def run():
        run = CurationRun({"curator": SMALL, "model_path": model_path}, PublishedWeights(synchronizer))
        await run.prepare()
        first = await run.decide(without_states(batch(), model_version=0))
        assert first.metrics["state_version"] == first.metrics["state_versions_ahead"] == 0
        synchronizer.weights, synchronizer.number = tiny(seed=5).state_dict(), 4
        second = await run.decide(without_states(batch(1), model_version=3))
        assert second.metrics["state_version"] == 4
        assert second.metrics["state_versions_ahead"] == 1
        with torch.no_grad():
            row = batch(1)[0]
            wanted = tiny(seed=5).model(input_ids=row.tokens[None] % 400).last_hidden_state[0, -2]
        torch.testing.assert_close(second.rollouts.hidden[0], wanted, rtol=1e-5, atol=1e-5)
        await run.decide(without_states(batch(2)))
        assert synchronizer.reads == 1

    asyncio.run(run())


def test_weights_that_only_the_engines_get(batch, model_path):
    synchronizer = Synchronizer()
    synchronizer.number = 2

    async def run(**arguments):
        run = CurationRun({"curator": SMALL, "model_path": model_path, **arguments}, PublishedWeights(synchronizer))
        await run.prepare()
        return await run.decide(without_states(batch(), model_version=2))

    with pytest.raises(UnsupportedError, match=r"sync_method=nccl.*set it to memory or checkpoint"):
        asyncio.run(run())
    assert asyncio.run(run(reload="never")).metrics["state_versions_ahead"] == -2


def test_weights_that_change_while_they_are_read():
    """Those read are not the newest any more: the next batch takes them."""
    synchronizer = Synchronizer()
    synchronizer.weights, synchronizer.number = {"a": torch.zeros(1)}, 1
    versions = iter([1, 2, 2, 2])
    synchronizer.get_latest_model_version = Answer(lambda: next(versions))
    published = PublishedWeights(synchronizer)
    assert asyncio.run(published.newer_than(0)) is None
    assert asyncio.run(published.newer_than(0))[1] == 2


def test_a_folder_of_weights_that_is_not_there(tmp_path):
    synchronizer = Synchronizer()
    synchronizer.path, synchronizer.number = str(tmp_path / "global_step_4" / "actor"), 4
    with pytest.raises(InputError, match=r"checkpoint: expected the folder .*global_step_4/actor, got none"):
        asyncio.run(PublishedWeights(synchronizer).newer_than(0))
    # Removed because a newer version took its place.
    versions = iter([4, 5])
    synchronizer.get_latest_model_version = Answer(lambda: next(versions))
    assert asyncio.run(PublishedWeights(synchronizer).newer_than(0)) is None
