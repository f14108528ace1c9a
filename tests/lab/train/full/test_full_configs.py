"""The full-size settings: every value of the paper's hyperparameter table, a file for every method and error rate."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file

from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.lab.train.read_settings import load_run_config
from geoalign.lab.train.settings import RunConfig

FULL = Path(__file__).parents[4] / "configs" / "full"

# The table (appendix, "Key hyperparameters for SFT and RL"), RL columns.
# setting: model, learning rate, prompts a batch, epochs, rollouts, prompt and response limit, steps between evaluations
RL: dict[str, tuple[str, float, int, int, int, int, int, int]] = {
    "hh_1.7b": ("Qwen/Qwen3-1.7B-Base", 1e-5, 96, 2, 8, 512, 1024, 8),
    "hh_4b": ("Qwen/Qwen3-4B-Base", 1e-5, 96, 2, 8, 1024, 1024, 8),
    # 16384 tokens in all, of which the response may have 8192.
    "math_1.7b": ("Qwen/Qwen3-1.7B", 2e-6, 96, 1, 16, 16384 - 8192, 8192, 10),
    "math_4b": ("Qwen/Qwen3-4B", 2e-6, 48, 1, 16, 16384 - 8192, 8192, 10),
}
SHARED_RL: dict[str, Any] = {"weight_decay": 0.1, "max_grad_norm": 1.0, "epsilon": 0.2, "temperature": 1.0}

# setting: learning rate, weight decay, clipping, batch, epochs, longest dialogue in tokens (prompt and response)
SFT: dict[str, tuple[float, float, float, int, int, int]] = {
    "hh_1.7b": (2e-5, 0.1, 1.0, 128, 5, 512 + 10240),
    "hh_4b": (2e-5, 0.1, 1.0, 128, 5, 1024 + 10240),
}
ALPHA = {"math": 0.05, "hh": 0.12}
TARGET_ACCURACY = {"math": 0.95, "hh": 0.85}
METHODS = ("geoalign", "grpo", "pf_ppo_br", "pf_ppo_bw", "par", "pods", "seed_grpo")
ERRORS = {"math_1.7b": ("flip_05",), "hh_1.7b": ("extremes_05", "extremes_10")}


def settings(setting: str, method: str = "geoalign") -> RunConfig:
    return load_run_config(FULL / setting / f"{method}.yaml").config


def test_there_is_a_file_for_every_method_and_error_rate() -> None:
    for setting in RL:
        files = {path.stem for path in (FULL / setting).glob("*.yaml")}
        assert files == {*METHODS, *ERRORS.get(setting, ())}
        for method in METHODS:
            config = settings(setting, method)
            assert config.curator.type == method
            assert config.output.folder == f"runs/{setting}/{method}"
            assert config.grpo == settings(setting).grpo
    assert settings("math_1.7b", "flip_05").reward.flip == 0.05
    for rate in (5, 10):
        reward = settings("hh_1.7b", f"extremes_{rate:02d}").reward
        assert (reward.extremes, reward.jitter, reward.fixed_share) == (rate / 100, 0, True)


@pytest.mark.parametrize("setting", RL)
def test_rl_has_the_values_of_the_table(setting: str) -> None:
    model, rate, prompts, epochs, rollouts, prompt, response, every = RL[setting]
    config = settings(setting)
    grpo, processes = config.grpo, config.launch.processes
    assert processes == 8
    assert config.model.path == model
    assert config.model.chat_template_kwargs == {"enable_thinking": False}
    assert {name: grpo[name] for name in SHARED_RL} == SHARED_RL
    assert (grpo["learning_rate"], grpo["num_train_epochs"]) == (rate, epochs)
    assert grpo["num_generations"] == rollouts
    assert grpo["per_device_train_batch_size"] * processes * grpo["steps_per_generation"] == prompts * rollouts
    assert grpo["gradient_accumulation_steps"] == grpo["steps_per_generation"]  # one update on each
    assert (config.max_prompt_length, grpo["max_completion_length"]) == (prompt, response)
    assert grpo["vllm_max_model_length"] == prompt + response
    assert grpo["shuffle_dataset"] is False
    assert config.evaluation.every == every
    assert config.evaluation.temperature == 1.0


@pytest.mark.parametrize("setting", SFT)
def test_sft_has_the_values_of_the_table(setting: str) -> None:
    rate, decay, clipping, batch, epochs, longest = SFT[setting]
    config = settings(setting)
    sft = config.sft
    assert sft is not None
    assert (sft["learning_rate"], sft["weight_decay"], sft["max_grad_norm"]) == (rate, decay, clipping)
    assert sft["per_device_train_batch_size"] * 8 * sft["gradient_accumulation_steps"] == batch
    assert (sft["num_train_epochs"], sft["max_length"]) == (epochs, longest)
    assert settings(setting.replace("hh", "math")).sft is None  # maths starts from instruction-tuned models


@pytest.mark.parametrize("setting", RL)
def test_geoalign_has_the_settings_of_the_paper(setting: str) -> None:
    domain = setting.partition("_")[0]
    preset = GeoAlignConfig.preset("paper", task="math" if domain == "math" else "dialogue")
    config = settings(setting)
    assert config.curator == preset
    assert (config.curator.alpha, config.curator.projector.target_accuracy) == (ALPHA[domain], TARGET_ACCURACY[domain])
    assert config.hidden_position == "predicting"


def test_launch_files_are_for_as_many_processes() -> None:
    for setting in RL:
        launch = settings(setting).launch
        assert launch.accelerate is not None
        path = FULL.parents[1] / launch.accelerate
        # accelerate's own reader, which refuses keys that it does not know.
        given = load_config_from_file(str(path))
        assert given.num_processes == launch.processes
        assert given.mixed_precision == "bf16"
        zero = yaml.safe_load(path.read_text()).get("deepspeed_config", {}).get("zero_stage", 0)
        assert zero in (0, 1, 2)  # ZeRO-3 has never been run


def test_benchmarks_are_sampled_as_in_the_paper() -> None:
    evaluation = settings("math_1.7b").evaluation
    names = list(settings("math_1.7b").task.evaluation)
    assert names == ["aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench"]
    assert [evaluation.samples_of(name, last=False) for name in names] == [8, 8, 4, 1, 1, 1]
    assert [evaluation.samples_of(name, last=True) for name in names] == [64, 64, 32, 1, 1, 1]
