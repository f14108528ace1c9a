"""Run by `make test-trinity`: the policy's weights, as Trinity-RFT's synchroniser publishes them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect

import pytest
import torch
from trinity_batches import GEOALIGN, OPERATOR, RUNS, TASKS, disconnect, in_order, rollouts, settings

# What Trinity-RFT and the packages below it warn about is theirs.
pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]


class HereNotThere:
    """Trinity's synchroniser in this process, called as its actor is."""

    def __init__(self, target):
        self.target = target

    def __getattr__(self, name):
        return Method(getattr(self.target, name))


class Method:
    """`.remote()` of a method: what it gives is awaited, or read as a stream of what is awaited."""

    def __init__(self, method):
        self.method = method

    def options(self, **options):
        return self

    def remote(self, *arguments):
        given = self.method(*arguments)
        if inspect.isgenerator(given):
            return self._stream(given)
        return given if inspect.isawaitable(given) else self._later(given)

    async def _stream(self, values):
        for value in values:
            yield self._later(value)

    async def _later(self, value):
        return value


class Module:
    """What the synchroniser looks after, alive until its test is over."""

    def __init__(self):
        self.over = False
        self.is_alive = Method(self._answer)

    def _answer(self):
        from ray.exceptions import RayActorError

        if self.over:
            raise RayActorError
        return True


@contextlib.asynccontextmanager
async def synchronizer_here(config):
    """Trinity's synchroniser in this process. Its watch may swallow a cancellation; it ends with what it watches."""
    from trinity.manager.synchronizer import Synchronizer

    module = Module()
    try:
        yield Synchronizer(config, module)
    finally:
        module.over = True


@pytest.mark.parametrize("sync", ["memory", "checkpoint", "nccl"])
def test_states_of_the_policy_that_the_synchronizer_publishes(tmp_path, sync):
    from safetensors.torch import save_file
    from trinity_parts import tiny

    from geoalign.adapters.trinity import GeoAlignOperator
    from geoalign.adapters.trinity.states import PublishedWeights
    from geoalign.errors import UnsupportedError

    tiny().save_pretrained(tmp_path / "model")
    publish = tiny(seed=3).state_dict()

    async def run():
        async with synchronizer_here(settings(tmp_path / "run", sync=sync)) as synchronizer:
            await check(HereNotThere(synchronizer))

    async def check(actor):
        operator = GeoAlignOperator(curator=GEOALIGN, model_path=str(tmp_path / "model"), log_metrics="all")
        operator.run._weights = PublishedWeights(actor)
        await operator.prepare()
        _, first = await operator.process(rollouts(states=False))
        assert first["geoalign/state_version"] == 0
        if sync == "nccl":
            await actor.set_explorer_status.remote(_running())
            ready = asyncio.ensure_future(actor.ready_to_nccl_sync.remote("trainer", 2))
            while await actor.get_latest_model_version.remote() != 2:
                await asyncio.sleep(0.01)
            with pytest.raises(UnsupportedError, match="sync_method=nccl"):
                await operator.process(rollouts(states=False, batch=1))
            ready.cancel()
            return
        folder = tmp_path / "run" / "global_step_2" / "actor"
        folder.mkdir(parents=True)
        if sync == "checkpoint":
            save_file(publish, folder / "model.safetensors")
        await actor.set_model_state_dict.remote(publish if sync == "memory" else None, 2)
        _, second = await operator.process(rollouts(states=False, batch=1))
        assert second["geoalign/state_version"] == second["geoalign/state_versions_ahead"] == 2
        row = rollouts(states=False)[0]
        with torch.no_grad():
            wanted = tiny(seed=3).model(input_ids=row.tokens[None]).last_hidden_state[0, -2]
        torch.testing.assert_close(operator.run._model.states([row])[0][0], wanted, rtol=1e-5, atol=1e-5)

    asyncio.run(run())


def test_a_folder_that_the_synchronizer_removes(tmp_path):
    """Left for the next batch where a newer version took its place; an error where there is no newer one."""
    from safetensors.torch import save_file

    from geoalign.adapters.trinity.states import PublishedWeights
    from geoalign.errors import InputError

    def saved(number, fill):
        folder = tmp_path / f"global_step_{number}" / "actor"
        folder.mkdir(parents=True)
        save_file({"a": torch.full((2,), fill)}, folder / "model.safetensors")

    async def run():
        async with synchronizer_here(settings(tmp_path, sync="checkpoint")) as synchronizer:
            await check(synchronizer)

    async def check(synchronizer):
        actor = HereNotThere(synchronizer)

        async def path_and_overtaken():
            path = await synchronizer.get_latest_model_path()
            if synchronizer.model_version == 1:
                saved(2, 2.0)
                await synchronizer.set_model_state_dict(None, 2)
                await synchronizer._remove_previous_state_dict(1)
            return path

        actor.get_latest_model_path = Method(path_and_overtaken)
        saved(1, 1.0)
        await synchronizer.set_model_state_dict(None, 1)
        assert await PublishedWeights(actor).newer_than(0) is None
        weights, version = await PublishedWeights(actor).newer_than(0)
        assert not (tmp_path / "global_step_1").exists()
        assert (version, weights["a"].tolist()) == (2, [2.0, 2.0])
        await synchronizer.set_model_state_dict(None, 3)
        with pytest.raises(InputError, match=r"expected the folder .*global_step_3/actor, got none on this machine"):
            await PublishedWeights(actor).newer_than(2)

    asyncio.run(run())


@pytest.fixture
def synchronizer(tmp_path, cluster):
    """Trinity's synchroniser in an actor of its own, under the name that it has in a run."""
    import ray
    from trinity.manager.synchronizer import Synchronizer

    @ray.remote(num_cpus=0)
    class Keeper:
        def is_alive(self):
            return True

    keeper = Keeper.remote()
    config = settings(tmp_path / "run")
    actor = ray.remote(Synchronizer).options(name="synchronizer", num_cpus=0).remote(config, module_ref=keeper)
    yield actor
    ray.kill(actor)
    ray.kill(keeper)


def test_the_coordinator_scores_with_the_weights_of_the_synchronizers_actor(tmp_path, synchronizer):
    """As in a run: the operator, in the coordinator's actor, finds the synchroniser's by name and streams from it."""
    import ray
    from trinity.buffer import get_buffer_reader
    from trinity.common.experience import Experience
    from trinity.explorer import RolloutCoordinator
    from trinity_parts import tiny

    from geoalign.adapters.trinity.states import PublishedWeights

    tiny().save_pretrained(tmp_path / "model")
    arguments = {"curator": GEOALIGN, "model_path": str(tmp_path / "model"), "log_metrics": "all"}
    config = settings(tmp_path / "a", operators=[(OPERATOR, arguments)])
    config.mode = "serve"  # without the scheduler, which wants rollout models
    batches = [rollouts(states=False, batch=number) for number in range(2)]

    async def run():
        coordinator = RolloutCoordinator.get_actor(config)
        reader = get_buffer_reader(config.buffer.trainer_input.experience_buffer)
        try:
            await coordinator.prepare.remote()
            first = await coordinator.process_experiences.remote([Experience.serialize_many(batches[0])])
            assert first["experience_pipeline/geoalign/state_version"] == 0
            await synchronizer.set_model_state_dict.remote(tiny(3).state_dict(), 5)
            second = await coordinator.process_experiences.remote([Experience.serialize_many(batches[1])])
            assert second["experience_pipeline/geoalign/state_version"] == 5
            rows = await reader.read(batch_size=2 * TASKS * RUNS)
        finally:
            ray.kill(coordinator)
            await disconnect(reader)
        weights, version = await PublishedWeights().newer_than(4)
        assert version == 5
        assert all(torch.equal(value, weights[name]) for name, value in tiny(3).state_dict().items())
        found = in_order(row for row in rows if row.eid.batch == 1)
        assert len(found) == TASKS * RUNS
        stale, fresh = [await alone(arguments, weights) for weights in (None, tiny(3).state_dict())]
        torch.testing.assert_close(scores(found), fresh, rtol=1e-4, atol=1e-4)
        assert (fresh - stale).abs().max() > 0.01

    asyncio.run(run())


async def alone(arguments, weights):
    """Scores of the second of two batches, by an operator without a synchroniser that is given the weights between."""
    from geoalign.adapters.trinity import GeoAlignOperator

    operator = GeoAlignOperator(**arguments, reload="never")
    await operator.prepare()
    await operator.process(rollouts(states=False))
    if weights is not None:
        operator.run._model.load(weights, 5)
    return scores((await operator.process(rollouts(states=False, batch=1)))[0])


def scores(rows):
    return torch.tensor([row.info["geoalign_score"] for row in in_order(rows)])


def _running():
    from trinity.common.constants import RunningStatus

    return RunningStatus.RUNNING
