"""The shipped recipes: the paper's values, as the TRL configurations have them, and against verl's own schema."""

import os
import subprocess
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from recipe import load

from geoalign.adapters.settings import StateSettings, read_section
from geoalign.adapters.verl.check import checked_session
from geoalign.adapters.verl.refusals import check_mode
from geoalign.curators.denoise import DenoiseConfig
from geoalign.lab.data.task import Problem
from geoalign.lab.train.read_settings import load_run_config
from geoalign.settings.yaml_text import parse_value

FULL = Path(__file__).parents[3] / "configs" / "full"
RECIPES = {"verl_dapo_math.sh": "math_1.7b/geoalign.yaml", "verl_hh_rlhf.sh": "hh_4b/geoalign.yaml"}


# What configs/full/commands.md appends to the mathematics script: for another curator, another model and one GPU.
COMMANDS = {
    "the paper": ("", []),
    "denoise": ("denoise", []),
    "five metrics": ("denoise", ["++geoalign.log_metrics=headline"]),
    "appeals": ("appeals", ["+geoalign.curator.budget=150", "+geoalign.second_verifier=mine.py:strict"]),
    "monitor": ("monitor", []),
    "Qwen3-4B": ("denoise", ["data.train_batch_size=48", "actor_rollout_ref.actor.ppo_mini_batch_size=48"]),
    "one GPU": (
        "denoise",
        [
            "trainer.n_gpus_per_node=1",
            "data.train_batch_size=12",
            "actor_rollout_ref.actor.ppo_mini_batch_size=12",
        ],
    ),
}


def overrides(recipe, **variables):
    given = {"TRAIN": "train.parquet", "VAL": "val.parquet", "MODEL": "model", "REWARD": "reward.py", "PYTHON": "echo"}
    given |= {"CURATOR": "", **variables}
    line = ["bash", FULL / recipe, "trainer.nnodes=2"]
    words = subprocess.run(line, env={**os.environ, **given}, capture_output=True, text=True, check=True).stdout.split()
    assert (words[:2], words[-1]) == (["-m", "verl.trainer.main_ppo"], "trainer.nnodes=2")
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
def test_curator_and_training_are_those_of_the_trl_configuration(recipe, config):
    words = overrides(recipe)
    given, theirs = dict(setting.split("=", 1) for setting in words), load_run_config(FULL / config).config
    gpus, grpo, ours = theirs.launch.processes, theirs.grpo, parse_settings(geoalign_section(words))
    assert (ours.curator, ours.hidden_position, ours.seed) == (theirs.curator, theirs.hidden_position, theirs.seed)
    prompts = gpus * grpo["per_device_train_batch_size"] * grpo["steps_per_generation"] // grpo["num_generations"]
    expected = {
        "data.train_batch_size": prompts,
        "data.max_prompt_length": theirs.max_prompt_length,
        "data.max_response_length": grpo["max_completion_length"],
        "data.shuffle": grpo["shuffle_dataset"],
        "actor_rollout_ref.rollout.n": grpo["num_generations"],
        "actor_rollout_ref.rollout.temperature": grpo["temperature"],
        "actor_rollout_ref.actor.ppo_mini_batch_size": prompts,
        "actor_rollout_ref.actor.optim.lr": grpo["learning_rate"],
        "actor_rollout_ref.actor.optim.weight_decay": grpo["weight_decay"],
        "actor_rollout_ref.actor.optim.lr_warmup_steps": grpo["warmup_steps"],
        "actor_rollout_ref.actor.clip_ratio": grpo["epsilon"],
        "actor_rollout_ref.actor.grad_clip": grpo["max_grad_norm"],
        "actor_rollout_ref.actor.use_kl_loss": grpo["beta"] > 0,
        "actor_rollout_ref.actor.loss_agg_mode": {"dapo": "token-mean"}[grpo["loss_type"]],
        "algorithm.norm_adv_by_std_in_grpo": grpo["scale_rewards"] == "group",
        "trainer.total_epochs": grpo["num_train_epochs"],
        "trainer.n_gpus_per_node": gpus,
        "trainer.save_freq": grpo["save_steps"],
        "trainer.test_freq": theirs.evaluation.every,
    }
    assert {name: parse_value(given[name].lower()) for name in expected} == expected


def test_mathematics_has_the_model_prompt_and_scorer_of_the_trl_configuration():
    given = dict(setting.split("=", 1) for setting in overrides("verl_dapo_math.sh"))
    theirs = load_run_config(FULL / "math_1.7b/geoalign.yaml").config
    thinking = parse_value(given["+data.apply_chat_template_kwargs.enable_thinking"].lower())
    assert {"enable_thinking": thinking} == theirs.model.chat_template_kwargs
    assert f"${{MODEL:-{theirs.model.path}}}" in (FULL / "verl_dapo_math.sh").read_text()
    # Its prompts and scorer: tests/recipes/test_dapo_math.py.
    assert given["reward.custom_reward_function.path"] == str(FULL.parents[1] / "recipes" / "dapo_math.py")
    assert given["reward.custom_reward_function.name"] == "compute_score"


def test_another_curator_by_name_trains_the_same_under_a_name_of_its_own():
    words, papers = overrides("verl_dapo_math.sh", CURATOR="denoise"), overrides("verl_dapo_math.sh")
    ours = parse_settings(geoalign_section(words))
    assert (ours.curator, ours.hidden_position) == (DenoiseConfig(), "mean")
    assert ours.rollout_fields == {"answers": "answer"}
    added = {word for word in words if word not in papers and not word.startswith("+geoalign.")}
    assert added == {"trainer.experiment_name=dapo_math_1.7b_denoise"}


def composed(settings):
    """verl's configuration, by hydra from its own files: an unknown key that is not added with + is an error there."""
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=settings)


@pytest.mark.engines
@pytest.mark.skipif("verl" not in packages_distributions(), reason="verl is not installed (make test-verl)")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recipe", RECIPES)
def test_verl_knows_every_setting(recipe):
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.tracking import Tracking

    config = composed(overrides(recipe))
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    plain = OmegaConf.to_container(config, resolve=True)
    assert set(plain["trainer"]["logger"]) <= set(Tracking.supported_backend)
    if recipe == "verl_dapo_math.sh":
        assert plain["data"]["apply_chat_template_kwargs"] == {"enable_thinking": False}
    assert plain["trainer"]["v1"]["trainer_mode"] == "geoalign_sync"
    assert plain["actor_rollout_ref"]["actor"]["optim"]["lr_scheduler_type"] == "constant"  # verl's default


@pytest.mark.engines
@pytest.mark.skipif("verl" not in packages_distributions(), reason="verl is not installed (make test-verl)")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_passes_verls_checks_and_ours(command, tmp_path, monkeypatch):
    """On what verl checks only in a run, too: rows for every process, room for the longest row, whole vLLM engines."""
    from omegaconf import OmegaConf
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    (tmp_path / "mine.py").write_text("def strict(**rows): ...\n")
    monkeypatch.chdir(tmp_path)
    curator, appended = COMMANDS[command]
    config = composed([*overrides("verl_dapo_math.sh", CURATOR=curator), "trainer.nnodes=1", *appended])
    validate_config(config, use_reference_policy=False, use_critic=False)
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    plain = OmegaConf.to_container(config, resolve=True)
    check_mode(plain)
    _, session, verifier = checked_session(plain)
    assert session.curator.config.type == (curator or "geoalign")
    assert (verifier is not None) == (curator == "appeals")
    assert plain["trainer"]["rollout_data_dir"] == f"{plain['trainer']['default_local_dir']}/rollouts"
    assert plain["geoalign"]["log_metrics"] == ("headline" if command == "five metrics" else "all")
    data, actor, gpus = config.data, config.actor_rollout_ref.actor, config.trainer.n_gpus_per_node
    assert gpus % rollout.tensor_model_parallel_size == 0
    assert data.train_batch_size * rollout.n % gpus == 0
    assert data.train_batch_size == actor.ppo_mini_batch_size
    longest = data.max_prompt_length + data.max_response_length
    assert min(actor.ppo_max_token_len_per_gpu, rollout.log_prob_max_token_len_per_gpu) >= longest


@pytest.mark.engines
@pytest.mark.skipif("verl" not in packages_distributions(), reason="verl is not installed (make test-verl)")
@pytest.mark.filterwarnings("ignore")
def test_verls_data_set_reads_the_rows_of_the_recipe(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from verl.utils.dataset.rl_dataset import RLHFDataset

    prompt = ({"role": "user", "content": "1+1?"},)
    row = load("dapo_math").ROWS["verl"](Problem(id="p", prompt=prompt, answer="2"), 0, "dapo_math_17k")
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "train.parquet")
    config = composed([*overrides("verl_dapo_math.sh", DATA=str(tmp_path)), f"+data.cache_dir={tmp_path}"])
    words = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    tokenizer.chat_template = "{{ messages[0].content }}"
    (found,) = RLHFDataset(config.data.train_files, tokenizer, config.data)
    assert found["raw_prompt"] == list(prompt)
    # What verl hands to the reward function.
    assert (found[config.data.reward_fn_key], found["reward_model"]["ground_truth"]) == ("dapo_math_17k", "2")
