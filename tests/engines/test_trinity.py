"""Run by `make test-trinity` in an environment with Trinity-RFT: its own experience pipeline, synchroniser and Ray."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import torch
import yaml

# By its distribution: a folder of tests called trinity can be imported too.
if "trinity-rft" not in packages_distributions().get("trinity", []):
    pytest.skip("trinity-rft is not installed here: make test-trinity", allow_module_level=True)

STUBS = Path(__file__).parent / "trinity_stubs"
sys.path.insert(0, str(STUBS))
sys.path.insert(0, str(Path(__file__).parents[1] / "adapters"))

# What Trinity-RFT and the packages below it warn about is theirs.
pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]

OPERATOR = "geoalign.adapters.trinity.GeoAlignOperator"
ADVANTAGE = "geoalign.adapters.trinity.GeoAlignAdvantage"
GEOALIGN = {
    "type": "geoalign",
    "alpha": 0.3,
    "min_scores": 8,
    "projector": {"hidden_dim": 8, "output_dim": 8, "steps": 5},
}
TASKS, RUNS = 6, 8
NAMESPACE = "geoalign_test"


@pytest.fixture(scope="module")
def cluster():
    """A Ray of its own, whose processes see the stand-in for vLLM."""
    import ray

    paths = [str(STUBS), str(Path(__file__).parents[1] / "adapters"), os.environ.get("PYTHONPATH", "")]
    # Ray gives up on its own processes after half a minute, which a busy machine may need longer than.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")
    for attempt in range(3):
        try:
            ray.init(
                num_cpus=2,
                namespace=NAMESPACE,
                include_dashboard=False,
                logging_level="ERROR",
                runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths))}},
            )
            break
        except Exception:
            ray.shutdown()
            if attempt == 2:
                raise
    yield
    ray.shutdown()


def test_the_environment_holds_what_it_is_for():
    import trinity

    assert trinity.__version__.startswith("0.6.")


def rollouts(*, states=True, wrong=True, batch=0):
    """Experiences as a workflow makes them: a task's first four runs are right; one run of each is judged wrongly."""
    from trinity.common.experience import EID, Experience

    draws = torch.Generator().manual_seed(batch)
    good = torch.randn(16, generator=torch.Generator().manual_seed(99))
    found = []
    for task in range(TASKS):
        for run in range(RUNS):
            right = run < 4
            state = torch.randn(16, generator=draws) * 0.3 + (good if right else -good)
            response = 3 + run % 3
            found.append(
                Experience(
                    eid=EID(batch=batch, task=task, run=run),
                    tokens=torch.arange(4 + response) + 20 * task + 2 * run,
                    prompt_length=4,
                    reward=float(right != (wrong and run == task % 4)),
                    logprobs=torch.full((response,), -float(run)),
                    info={"model_version": 0, "run": run, **({"geoalign_hidden": state.tolist()} if states else {})},
                )
            )
    return found


def settings(folder, *, operators=(), advantage="grpo", arguments=None, sync="memory"):
    """Trinity's own configuration, as its YAML gives it; its buffer is a table of this process, without Ray."""
    from trinity.common.config import Config, ExperiencePipelineConfig, OperatorConfig, StorageConfig
    from trinity.common.constants import SyncMethod

    folder.mkdir(exist_ok=True)
    config = Config()
    config.mode, config.ray_namespace, config.checkpoint_root_dir = "both", NAMESPACE, str(folder)
    config.checkpoint_job_dir = str(folder)
    config.algorithm.algorithm_type, config.algorithm.repeat_times = "grpo", RUNS
    config.algorithm.advantage_fn, config.algorithm.advantage_fn_args = advantage, arguments or {}
    config.synchronizer.sync_method = SyncMethod(sync)
    config.data_processor.experience_pipeline = ExperiencePipelineConfig(
        save_input=False, operators=[OperatorConfig(name=name, args=args) for name, args in operators]
    )
    config.buffer.trainer_input.experience_buffer = StorageConfig(
        name=f"buffer_{folder.parent.name}_{folder.name}",
        storage_type="sql",
        schema_type="experience",
        path=f"sqlite:///{folder}/buffer.db",
        wrap_in_ray=False,
    )
    return config


async def processed(config, batch):
    """What the trainer reads after a batch, and the pipeline's metrics."""
    from trinity.buffer import get_buffer_reader
    from trinity.buffer.pipelines.experience_pipeline import ExperiencePipeline
    from trinity.common.experience import Experience

    pipeline = ExperiencePipeline(config)
    reader = get_buffer_reader(config.buffer.trainer_input.experience_buffer)
    try:
        await pipeline.prepare()
        metrics = await pipeline.process(Experience.serialize_many(batch))
        rows = await reader.read(batch_size=int(metrics["experience_pipeline/experience_count"]))
    finally:
        await pipeline.close()
        await disconnect(pipeline.output)
        await disconnect(reader)
    return in_order(rows), metrics


async def disconnect(end):
    """Closes the connection of one end of a table, which Trinity leaves to the end of the process."""
    storage = getattr(end, "_async_storage", None)
    if storage is not None:
        await storage.engine.dispose()


def in_order(rows):
    return sorted(rows, key=lambda row: (row.eid.task, row.eid.run))


def through(config, batch):
    return asyncio.run(processed(config, batch))


def by_place(rows):
    return {(row.eid.task, row.eid.run): row for row in rows}


def test_the_identity_curator_is_plain_trinity_bit_for_bit(tmp_path):
    plain, plain_metrics = through(settings(tmp_path / "a"), rollouts())
    same, metrics = through(settings(tmp_path / "b", operators=[(OPERATOR, {"curator": "grpo"})]), rollouts())
    other, _ = through(settings(tmp_path / "c", advantage=ADVANTAGE, arguments={"curator": "grpo"}), rollouts())
    for found in (same, other):
        assert [row.eid.rid for row in found] == [row.eid.rid for row in plain]
        for row, wanted in zip(found, plain, strict=True):
            assert torch.equal(row.advantages, wanted.advantages)
            assert torch.equal(row.tokens, wanted.tokens)
            assert row.reward == wanted.reward
    assert metrics["experience_pipeline/geoalign/replaced_rows"] == 0
    for name, value in plain_metrics.items():
        assert "time" in name or metrics[name] == value


def test_replaced_rows_reach_the_trainer(tmp_path, cluster):
    """Through the queue that a trainer reads from, which is an actor."""
    from trinity.common.config import ExperienceBufferConfig

    config = settings(tmp_path, operators=[(OPERATOR, {"curator": GEOALIGN})])
    config.buffer.trainer_input.experience_buffer = ExperienceBufferConfig(
        name="queue", storage_type="queue", path=str(tmp_path / "queue.jsonl"), max_read_timeout=5
    )
    before = by_place(rollouts())
    found, metrics = through(config, rollouts())
    assert len(found) == TASKS * RUNS
    assert len({row.eid.uid for row in found}) == TASKS * RUNS
    replaced = [row for row in found if "geoalign_donor" in row.info]
    assert len(replaced) == metrics["experience_pipeline/geoalign/replaced"] > 0
    for row in replaced:
        donor = before[row.eid.task, row.info["run"]]
        assert row.info["run"] != row.eid.run
        assert row.info["geoalign_donor"].startswith(f"0/{row.eid.task}/{donor.eid.run}/0/")
        assert torch.equal(row.tokens, donor.tokens)
        assert torch.equal(row.logprobs, donor.logprobs)
        assert row.reward == donor.reward
        assert len(row.advantages) == len(donor.tokens) - 4
    for task in range(TASKS):
        group = [row for row in found if row.eid.task == task]
        rewards = torch.tensor([row.reward for row in group])
        wanted = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        for row, value in zip(group, wanted, strict=True):
            assert torch.equal(row.advantages, value * row.action_mask)
    assert all("geoalign_hidden" not in row.info for row in found)
    assert metrics["experience_pipeline/geoalign/curated_reward"] != metrics["experience_pipeline/geoalign/raw_reward"]


def test_dropped_rows_do_not_reach_the_trainer(tmp_path):
    dropping = {**GEOALIGN, "strategy": "drop"}
    found, metrics = through(settings(tmp_path, operators=[(OPERATOR, {"curator": dropping})]), rollouts())
    dropped = metrics["experience_pipeline/geoalign/dropped_rows"]
    assert dropped > 0
    assert len(found) == TASKS * RUNS - dropped


def test_what_comes_after_advantages_is_refused_by_the_operator(tmp_path):
    weighing = {**GEOALIGN, "strategy": "zero_weight"}
    from geoalign.errors import UnsupportedError

    for curator in (weighing, "mc_grpo"):
        name = curator if isinstance(curator, str) else curator["strategy"]
        config = settings(tmp_path / name, operators=[(OPERATOR, {"curator": curator})])
        with pytest.raises(UnsupportedError, match=r"geoalign\.adapters\.trinity\.GeoAlignAdvantage as algorithm"):
            through(config, rollouts())
    config = settings(tmp_path / "cppo", operators=[(OPERATOR, {"curator": "cppo"})])
    with pytest.raises(UnsupportedError, match="CPPO needs advantages, which come after every operator"):
        through(config, rollouts())


def test_weights_multiply_trinitys_advantages(tmp_path):
    weighing = {**GEOALIGN, "strategy": "zero_weight"}
    plain = by_place(through(settings(tmp_path / "plain"), rollouts())[0])
    found, metrics = through(settings(tmp_path / "b", advantage=ADVANTAGE, arguments={"curator": weighing}), rollouts())
    assert len(found) == TASKS * RUNS
    zero = [place for place, row in by_place(found).items() if not row.advantages.any()]
    assert len(zero) == metrics["experience_pipeline/geoalign/zero_weighted"] > 0
    for place, row in by_place(found).items():
        assert torch.equal(row.advantages, plain[place].advantages * (place not in zero))
        assert torch.equal(row.returns, row.advantages)


def test_a_curators_own_advantages_and_one_that_needs_trinitys(tmp_path):
    plain = by_place(through(settings(tmp_path / "plain"), rollouts())[0])
    own = by_place(
        through(settings(tmp_path / "a", advantage=ADVANTAGE, arguments={"curator": "mc_grpo"}), rollouts())[0]
    )
    assert any(not torch.equal(row.advantages, plain[place].advantages) for place, row in own.items())
    assert all(bool(row.advantages.isfinite().all()) for row in own.values())
    config = settings(tmp_path / "b", advantage=ADVANTAGE, arguments={"curator": {"type": "cppo"}})
    found, metrics = through(config, rollouts())
    kept = by_place(found)
    assert metrics["experience_pipeline/geoalign/dropped_rows"] > 0 or any(not r.advantages.any() for r in found)
    assert set(kept) <= set(plain)


def test_an_advantage_function_of_the_trainer_is_refused(tmp_path):
    from geoalign.errors import UnsupportedError

    config = settings(tmp_path, advantage=ADVANTAGE, arguments={"base": "ppo"})
    with pytest.raises(UnsupportedError, match="base 'ppo' computes advantages inside the trainer"):
        through(config, rollouts())


@pytest.mark.parametrize("base", ["gropo", "no.such.Function", "geoalign.adapters.trinity.GeoAlignOperator", None])
def test_a_base_that_is_no_advantage_function(base):
    from geoalign.adapters.trinity import GeoAlignAdvantage
    from geoalign.errors import ConfigError

    with pytest.raises(ConfigError, match=f"base: expected an advantage function of Trinity-RFT, got {base!r}"):
        GeoAlignAdvantage(base=base)


def test_unscored_rows_are_left_out_and_bad_experiences_stop_the_batch(tmp_path):
    from geoalign.errors import InputError

    batch = rollouts()
    batch[3].reward = None
    config = settings(tmp_path / "a", operators=[(OPERATOR, {"curator": GEOALIGN})])
    found, metrics = through(config, batch)
    assert metrics["experience_pipeline/geoalign/unscored_rows"] == 1
    assert (0, 3) not in by_place(found)
    batch = rollouts()
    del batch[5].info["geoalign_hidden"]
    with pytest.raises(InputError, match="got none in 1 of 48, the first 0/0/5/0"):
        through(settings(tmp_path / "b", operators=[(OPERATOR, {"curator": GEOALIGN})]), batch)


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


def save_shards(policy, folder):
    """What Trinity's FSDP2 engine writes where a full checkpoint is due, by one process."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        fully_shard(policy, mesh=init_device_mesh("cpu", (1,), mesh_dim_names=("fsdp",)))
        torch.save(policy.state_dict(), folder / "model_world_size_1_rank_0.pt")
    finally:
        distributed.destroy_process_group()
    policy.config.save_pretrained(folder / "huggingface")


@pytest.mark.parametrize("sync", ["memory", "checkpoint", "checkpoint of shards", "nccl"])
def test_states_of_the_policy_that_the_synchronizer_publishes(tmp_path, sync):
    from safetensors.torch import save_file
    from trinity_parts import tiny

    from geoalign.adapters.trinity import GeoAlignOperator
    from geoalign.adapters.trinity.weights import PublishedWeights
    from geoalign.errors import UnsupportedError

    tiny().save_pretrained(tmp_path / "model")
    publish = tiny(seed=3).state_dict()

    async def run():
        async with synchronizer_here(settings(tmp_path / "run", sync=sync.split()[0])) as synchronizer:
            await check(HereNotThere(synchronizer))

    async def check(actor):
        operator = GeoAlignOperator(curator=GEOALIGN, model_path=str(tmp_path / "model"))
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
        elif sync == "checkpoint of shards":
            save_shards(tiny(seed=3), folder)
        await actor.set_model_state_dict.remote(publish if sync == "memory" else None, 2)
        _, second = await operator.process(rollouts(states=False, batch=1))
        assert second["geoalign/state_version"] == second["geoalign/state_versions_ahead"] == 2
        row = rollouts(states=False)[0]
        with torch.no_grad():
            policy = tiny(seed=3)
            if "shards" in sync:  # Trinity merges them in bfloat16
                policy = policy.bfloat16().float()
            wanted = policy.model(input_ids=row.tokens[None]).last_hidden_state[0, -2]
        torch.testing.assert_close(operator.run._model.states([row])[0], wanted, rtol=1e-5, atol=1e-5)

    asyncio.run(run())


def test_a_folder_that_the_synchronizer_removes(tmp_path):
    """Read again where a newer version took its place; an error where there is no newer one."""
    from safetensors.torch import save_file

    from geoalign.adapters.trinity.weights import PublishedWeights
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

    from geoalign.adapters.trinity.weights import PublishedWeights

    tiny().save_pretrained(tmp_path / "model")
    arguments = {"curator": GEOALIGN, "model_path": str(tmp_path / "model")}
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


def test_trinitys_own_check_takes_the_dotted_path(tmp_path):
    from trinity.common.config_validator import AlgorithmConfigValidator

    config = settings(tmp_path, advantage=ADVANTAGE)
    config.algorithm.advantage_fn_args = None
    AlgorithmConfigValidator().validate(config)
    assert config.algorithm.advantage_fn_args == {}


def test_the_yaml_of_the_docs_is_trinitys(tmp_path):
    from trinity.common.config import load_config

    from geoalign.adapters.trinity.settings import read_settings

    page = (Path(__file__).parents[2] / "docs" / "trinity.md").read_text(encoding="utf-8")
    found = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    listed = "".join(block for block in found if block.startswith("curator:"))
    alternatives = re.split(r"^(?=curator:)", listed, flags=re.MULTILINE)
    curators = [yaml.safe_load(text) for text in alternatives if text]
    assert [read_settings({**each, "model_path": "some/model"}).curator.type for each in curators] == [
        "geoalign",
        "geoalign_released",
    ]
    blocks = [block for block in found if not block.startswith("curator:")]
    assert len(blocks) == 2
    configs = []
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(f"{block}\nmodel:\n  model_path: some/model\n", encoding="utf-8")
        configs.append(load_config(str(file)))
    [operator] = configs[0].data_processor.experience_pipeline.operators
    assert operator.name == OPERATOR
    found = read_settings(operator.args)
    curator = found.curator
    assert (found.model_path, curator.alpha) == ("some/model", 0.05)
    assert configs[1].algorithm.advantage_fn == ADVANTAGE
    arguments = dict(configs[1].algorithm.advantage_fn_args)
    assert (arguments.pop("base"), arguments.pop("base_args")) == ("grpo", {"epsilon": 1e-6})
    assert read_settings(arguments).curator.strategy == "zero_weight"
