"""Real trainings: Axolotl's own configuration and `train` on a tiny model. Run by `make test-axolotl`."""

from __future__ import annotations

from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

from geoalign.adapters.decision import refuse
from geoalign.errors import ConfigError, UnsupportedError

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("axolotl" not in packages_distributions(), reason="not installed (make test-axolotl)"),
]

if "axolotl" in packages_distributions():
    from axolotl.cli.config import load_cfg
    from axolotl.utils.dict import DictDefault
    from axolotl_parts import configuration, prepare, train
    from trl_parts import Drawing, same_weights, weights_of

    from geoalign.adapters.axolotl.plugin import refusals, registered_settings

RECIPES = Path(__file__).parents[3] / "recipes"
OPTIONS = {
    "dapo, two updates, a reference, two rewards": {
        "trl": {
            "loss_type": "dapo", "num_iterations": 2, "beta": 0.1,
            "reward_funcs": ["trl_parts.digits", "trl_parts.length"], "reward_weights": [0.5, 2.0],
        },
    },
    "LoRA, micro-batches": {
        "adapter": "lora", "lora_r": 4, "lora_alpha": 8, "lora_target_linear": True, "lora_dropout": 0.0,
        "micro_batch_size": 4, "gradient_accumulation_steps": 2,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("axolotl"))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_curator_that_only_watches_is_plain_axolotl_bit_for_bit(inputs, tmp_path, name):
    plain = train(inputs, tmp_path / "plain", **OPTIONS[name])
    section = {"curator": "denoise", "monitor": True, "hidden_position": "mean", "log_metrics": "all"}
    curated = train(inputs, tmp_path / "curated", section, **OPTIONS[name])
    assert curated.entered == plain.entered
    assert same_weights(weights_of(curated), weights_of(plain))
    logged = [entry for entry in curated.state.log_history if "geoalign/hidden_seconds" in entry]
    assert logged


def test_denoise_acts_on_the_answers_that_the_section_names(inputs, tmp_path):
    section = {
        "curator": {"type": "denoise", "geometry": "none", "level": 0.01},
        "rollout_fields": {"answers": "axolotl_parts:first_characters"},
    }
    batch = {"micro_batch_size": 32, "trl": {"num_generations": 8, "reward_funcs": ["trl_parts.has_digit"]}}
    plain = train(inputs, tmp_path / "plain", max_steps=6, **batch)
    curated = train(inputs, tmp_path / "curated", section, max_steps=6, **batch)
    changed = [entry["geoalign/changed_share"] for entry in curated.state.log_history if "loss" in entry]
    assert max(changed) > 0
    assert not same_weights(weights_of(curated), weights_of(plain))


def test_a_trainer_of_the_users_needs_no_plugin(inputs, tmp_path):
    curated = train(inputs, tmp_path, trainer_cls="axolotl_parts.OfTheUser")
    assert all("geoalign/hidden_seconds" in entry for entry in curated.state.log_history if "loss" in entry)


def test_resume_reaches_the_weights_of_an_undisturbed_run(inputs, tmp_path, monkeypatch):
    saving = {"save_strategy": "steps", "save_steps": 1, "max_steps": 3}
    section = {"curator": "grpo"}
    whole = train(inputs, tmp_path / "run", section, curator=Drawing(), monkeypatch=monkeypatch, **saving)
    checkpoint = tmp_path / "run" / "checkpoint-2"
    again = Drawing()
    resumed = train(
        inputs, tmp_path / "again", section, curator=again, monkeypatch=monkeypatch,
        resume_from_checkpoint=str(checkpoint), **saving,
    )  # fmt: skip
    assert again.calls == 3
    assert resumed.entered == whole.entered[-len(resumed.entered) :]
    assert same_weights(weights_of(resumed), weights_of(whole))


@pytest.mark.parametrize(
    ("section", "changes", "error", "message"),
    [
        ({"curator": "denoice"}, {}, ConfigError, "geoalign.curator: .*denoise"),
        ({"seed": 1}, {}, ConfigError, "geoalign.seed: expected to be left out"),
        ({}, {"trainer_cls": "mine.Trainer"}, UnsupportedError, "trainer_cls: mine.Trainer: expected to be left out"),
    ],
)
def test_a_wrong_section_stops_axolotl_before_anything_is_loaded(inputs, tmp_path, section, changes, error, message):
    with pytest.raises(error, match=message):
        load_cfg(configuration(inputs, tmp_path, section, **changes))


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({"rl": "dpo"}, "rl: dpo: there are no groups"),
        ({"rl": "grpo", "trl": {"use_data_producer": True}}, "trl.use_data_producer: .* set it to false"),
        ({"rl": "grpo", "trl": {"async_prefetch": True}}, "trl.async_prefetch: .* set it to false"),
        ({"rl": "grpo", "context_parallel_size": 2}, "context_parallel_size: 2: .* set it to 1"),
    ],
)
def test_what_is_refused(cfg, message):
    with pytest.raises(UnsupportedError, match=message):
        refuse(refusals(DictDefault(cfg)))


def test_axolotl_asks_before_it_loads_a_model(inputs, tmp_path):
    with pytest.raises(UnsupportedError, match=r"trl\.use_data_producer"):
        train(inputs, tmp_path, {"curator": "grpo"}, trl={"use_data_producer": True})


def test_axolotl_reads_the_recipe(inputs, monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPES))
    written = yaml.safe_load((RECIPES / "axolotl_gsm8k.yaml").read_text())
    cfg = load_cfg(DictDefault({**written, "base_model": str(inputs / "model"), "bf16": False}))
    assert cfg.trainer_cls == "geoalign.adapters.axolotl.CuratedAxolotlTrainer"
    assert registered_settings().curator.type == "denoise"
    assert not any(refusals(cfg).values())
