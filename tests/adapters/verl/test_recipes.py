"""The shipped recipes: the paper's values, as the TRL configurations have them, and against verl's own schema."""

import os
import subprocess
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from geoalign.adapters.settings import StateSettings, read_section
from geoalign.adapters.verl.refusals import check_config
from geoalign.lab.config.loading import load_run_config
from geoalign.settings.yaml_text import parse_value

FULL = Path(__file__).parents[3] / "configs" / "full"
RECIPES = {"verl_dapo_math.sh": "math_4b/geoalign.yaml", "verl_hh_rlhf.sh": "hh_4b/geoalign.yaml"}


def overrides(recipe):
    """The settings that the recipe gives to verl."""
    given = {"TRAIN": "train.parquet", "VAL": "val.parquet", "MODEL": "model", "REWARD": "reward.py", "PYTHON": "echo"}
    run = subprocess.run(
        ["bash", FULL / recipe, "trainer.nnodes=2"],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    words = run.stdout.split()
    assert words[:2] == ["-m", "verl.trainer.main_ppo"]
    assert words[-1] == "trainer.nnodes=2"
    return words[2:]


def geoalign_section(settings):
    section = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key.startswith("+geoalign."):
            inner = section
            *path, last = key.removeprefix("+geoalign.").split(".")
            for name in path:
                inner = inner.setdefault(name, {})
            inner[last] = parse_value(value)
    return section


def parse_settings(section):
    return read_section(StateSettings, section, engine="verl", path="geoalign")


@pytest.mark.parametrize(("recipe", "config"), RECIPES.items())
def test_the_curator_is_that_of_the_trl_configuration(recipe, config):
    ours = parse_settings(geoalign_section(overrides(recipe)))
    theirs = load_run_config(FULL / config).config
    assert ours.curator == theirs.curator
    assert ours.hidden_position == theirs.hidden_position
    assert ours.seed == theirs.seed


@pytest.mark.parametrize(("recipe", "config"), RECIPES.items())
def test_the_training_is_that_of_the_trl_configuration(recipe, config):
    given = dict(setting.split("=", 1) for setting in overrides(recipe))
    grpo = load_run_config(FULL / config).config.grpo
    rollouts = int(given["data.train_batch_size"]) * int(given["actor_rollout_ref.rollout.n"])
    assert rollouts == 768
    assert int(given["actor_rollout_ref.rollout.n"]) == grpo["num_generations"]
    assert given["actor_rollout_ref.actor.ppo_mini_batch_size"] == given["data.train_batch_size"]
    assert int(given["data.max_response_length"]) == grpo["max_completion_length"]
    assert float(given["actor_rollout_ref.actor.optim.lr"]) == grpo["learning_rate"]
    assert float(given["actor_rollout_ref.actor.optim.weight_decay"]) == grpo["weight_decay"]
    assert float(given["actor_rollout_ref.actor.clip_ratio"]) == grpo["epsilon"]
    assert float(given["actor_rollout_ref.actor.grad_clip"]) == grpo["max_grad_norm"]
    assert float(given["trainer.total_epochs"]) == grpo["num_train_epochs"]


@pytest.mark.engines
@pytest.mark.skipif("verl" not in packages_distributions(), reason="verl is not installed (make test-verl)")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recipe", RECIPES)
def test_verl_knows_every_setting(recipe):
    """Composed by hydra from verl's own configuration: an unknown key that is not added with + is an error there."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=overrides(recipe))
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    plain = OmegaConf.to_container(config, resolve=True)
    check_config(plain)
    assert parse_settings(plain["geoalign"]).curator.min_scores == 2
    assert plain["trainer"]["v1"]["trainer_mode"] == "geoalign_sync"
