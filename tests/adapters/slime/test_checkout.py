"""The adapter in slime's and miles's own rollout managers, from checkouts of them; their servers are stood in for.

GEOALIGN_SLIME and GEOALIGN_MILES name the folders of the checkouts; an environment with ray has what else they import.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from slime_parts import arguments, recorded

from geoalign.adapters.slime import hooks

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]
GRPO = {"curator": {"type": "grpo"}}


class _Servers(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules for the servers, which the rollout manager imports and the conversion never calls."""

    def find_spec(self, name, path=None, target=None):
        known = name.split(".")[0] in ("sglang", "sglang_router", "wandb")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__ = []
        module.__name__ = spec.name
        module.__spec__ = spec
        return module

    def exec_module(self, module):
        pass


@pytest.fixture(params=["slime", "miles"])
def engine(request, monkeypatch):
    """The engine: its `Sample`, a function that converts samples as its rollout manager does, its data source."""
    name = request.param
    folder = os.environ.get(f"GEOALIGN_{name.upper()}")
    if folder is None:
        pytest.skip(f"GEOALIGN_{name.upper()} names no checkout of {name}")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, _Servers()])
    load = importlib.import_module(f"{name}.utils.misc").load_function
    hook = load("geoalign.adapters.slime.post_process_rewards")
    assert hook is hooks.post_process_rewards
    if name == "slime":
        manager = importlib.import_module("slime.ray.rollout").RolloutManager.__ray_metadata__.modified_class

        def convert(args, samples, custom, conversion):
            self = SimpleNamespace(
                args=args, custom_reward_post_process_func=custom, custom_convert_samples_to_train_data_func=conversion
            )
            self._post_process_rewards = lambda rows: manager._post_process_rewards(self, rows)
            return manager._convert_samples_to_train_data(self, samples)
    else:
        module = importlib.import_module("miles.ray.rollout.train_data_conversion")

        def convert(args, samples, custom, conversion):
            return module.convert_samples_to_train_data(args, samples, {}, conversion, custom)

    return SimpleNamespace(
        name=name,
        sample=importlib.import_module(f"{name}.utils.types").Sample,
        convert=lambda args, samples, curated, conversion=None: convert(
            args, samples, hook if curated else None, conversion
        ),
        data_source=load("geoalign.adapters.slime.data_source"),
    )


def test_without_curation_the_training_data_is_the_engines(engine):
    rewards = torch.rand(12, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()

    def samples():
        made = recorded(engine.sample)
        for sample, reward in zip(made, rewards, strict=True):
            sample.reward = reward
        return made

    for changes in ({}, {"grpo_std_normalization": False}, {"rewards_normalization": False}):
        args = arguments(GRPO, **changes)
        plain = engine.convert(args, samples(), False)
        found = engine.convert(args, samples(), True)
        if not changes.get("rewards_normalization", True):
            found["rewards"] = torch.tensor(found["rewards"]).tolist()
            plain["rewards"] = torch.tensor(plain["rewards"]).tolist()
        if engine.name == "miles":  # it takes the deviation of the rewards, not of the centred ones
            assert torch.allclose(torch.tensor(found.pop("rewards")), torch.tensor(plain.pop("rewards")), rtol=1e-6)
        assert found == plain


def test_a_replaced_row_is_trained_on_as_its_donor(engine, monkeypatch):
    args = arguments({"curator": {"type": "pf_ppo_br"}})
    samples = recorded(engine.sample)
    before = [list(sample.tokens) for sample in samples]
    found = engine.convert(args, samples, True)
    moved = [row for row, tokens in enumerate(found["tokens"]) if tokens != before[row]]
    assert moved
    for row in moved:
        donor = before.index(found["tokens"][row])
        assert donor // 4 == row // 4
        length = len(before[donor]) - 3
        assert found["response_lengths"][row] == length
        assert len(found["rollout_log_probs"][row]) == length
        assert len(found["loss_masks"][row]) == length
    assert found["sample_indices"] == list(range(12))
    assert len(set(found.get("rollout_ids", range(12)))) == 12  # slime 0.2 has none
    assert found["raw_reward"] == [1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1]


def test_dropped_and_unscored_rows(engine):
    section = {"curator": {"type": "pods", "m": 2}}
    samples = recorded(engine.sample)
    samples[0].reward = None
    found = engine.convert(arguments(section, calculate_per_token_loss=True), samples, True)
    trained = [any(mask) for mask in found["loss_masks"]]
    assert sum(trained) == 6
    assert all(reward == 0 for reward, some in zip(found["rewards"], trained, strict=True) if not some)
    assert found["rewards"][0] == 0


def test_rollouts_of_several_samples_stay_rollouts(engine, monkeypatch):
    samples = recorded(engine.sample)
    if not hasattr(samples[0], "rollout_id"):
        pytest.skip("slime 0.2: a rollout is one sample")
    for number, sample in enumerate(samples):
        sample.rollout_id = max(number, 1)
    samples[1].reward = samples[0].reward
    found = engine.convert(arguments({"curator": {"type": "pf_ppo_br"}}), samples, True)
    assert len(set(found["rollout_ids"])) == 11
    assert len(found["tokens"]) == len(found["rewards"]) == len(found["rollout_mask_sums"])


def test_the_engines_data_source_saves_the_curator(engine, tmp_path, monkeypatch):
    for other in {"slime", "vime", "miles"} - {engine.name}:
        monkeypatch.delitem(sys.modules, other, raising=False)
    if engine.name == "miles":  # it reads a file of prompts with a tokenizer
        module = importlib.import_module("miles.rollout.data_source")
        monkeypatch.setattr(module, "load_tokenizer", MagicMock())
        monkeypatch.setattr(module, "load_processor", MagicMock())
        prompts = [engine.sample() for _ in range(9)]
        monkeypatch.setattr(module, "Dataset", lambda *_, **__: MagicMock(samples=prompts, __len__=lambda _: 9))
    args = arguments({"curator": {"type": "pf_ppo_br"}}, save=str(tmp_path))
    source = engine.data_source(args)
    groups = source.get_samples(3)
    assert [sample.index for group in groups for sample in group] == list(range(12))
    engine.convert(args, recorded(engine.sample), True)
    source.save(0)
    assert {path.name for path in (tmp_path / "rollout").iterdir()} >= {
        "geoalign_0.safetensors", "global_dataset_state_dict_0.pt",
    }  # fmt: skip
    expected = engine.convert(args, recorded(engine.sample), True)
    again = arguments({"curator": {"type": "pf_ppo_br"}}, save=str(tmp_path), load=str(tmp_path))
    resumed = engine.data_source(again)
    resumed.load(0)
    assert resumed.get_samples(1)[0][0].index == 12
    assert engine.convert(again, recorded(engine.sample), True) == expected
