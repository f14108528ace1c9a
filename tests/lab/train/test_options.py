"""TRL's options: what is passed on, this project's defaults, what is refused, and the shape of a generation."""

from pathlib import Path
from typing import Any

import pytest
import torch

from geoalign.errors import ConfigError
from geoalign.lab.train.options import generation_shape, trainer_options
from geoalign.lab.train.read_settings import locating_errors
from geoalign.settings.locations import Locations

FOLDER = Path("nowhere")


def grpo(**values: Any) -> Any:
    return trainer_options(
        "grpo", {"per_device_train_batch_size": 8, "num_generations": 4, **values}, seed=3, folder=FOLDER
    )


def test_options_are_passed_on_and_ours_are_the_defaults() -> None:
    options = grpo(learning_rate=0.25, beta=0.5)
    assert (options.learning_rate, options.beta, options.seed) == (0.25, 0.5, 3)
    assert (options.report_to, options.steps_per_generation, options.disable_tqdm) == ([], 2, True)
    sft = trainer_options("sft", {"max_steps": 7}, seed=3, folder=FOLDER)
    assert (sft.max_steps, sft.seed, sft.data_seed, sft.packing) == (7, 3, 3, False)
    if not torch.accelerator.is_available():
        assert options.use_cpu
        assert not options.bf16


@pytest.mark.parametrize("section", ["sft", "reward_model", "gold_model"])
def test_epochs_say_how_long_a_stage_is_and_not_our_default(section: str) -> None:
    options = trainer_options(section, {"num_train_epochs": 3}, seed=3, folder=FOLDER)
    assert (options.num_train_epochs, options.max_steps) == (3, -1)
    both = trainer_options(section, {"num_train_epochs": 3, "max_steps": 9}, seed=3, folder=FOLDER)
    assert both.max_steps == 9


@pytest.mark.parametrize("section", ["sft", "grpo"])
def test_activations_are_recomputed_by_the_older_name_of_the_option_too(section: str) -> None:
    options = trainer_options(section, {"gradient_checkpointing": True}, seed=3, folder=FOLDER)
    names = ("activation_checkpointing", "gradient_checkpointing")
    assert any(getattr(options, name, False) for name in names)
    unset = trainer_options(section, {}, seed=3, folder=FOLDER)
    assert not any(getattr(unset, name, False) for name in names)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"learning_rat": 1}, r"grpo\.learning_rat: unknown key: expected grpo\.learning_rate, the nearest"),
        ({"output_dir": "x"}, r"grpo\.output_dir: expected to be left out \(use output\.folder\), got 'x'"),
        ({"learning_rate": "fast"}, r"grpo\.learning_rate: expected float \(TRL's GRPOConfig\), got 'fast'"),
        ({"num_generations": 3}, r"grpo: ValueError from TRL: .*divisible by num_generations"),
        ({"report_to": "nothing"}, r"grpo: ValueError from TRL: nothing is not supported"),
        ({"per_device_train_batch_size": 0}, r"grpo: expected at least one prompt, .* got 0 prompts"),
        ({"save_steps": 3}, r"grpo\.save_steps: expected a multiple of 2 \(updates per generation.*, got 3"),
        ({"logging_steps": 0.25}, r"grpo\.logging_steps: expected 1, got 0\.25: every update is a line"),
        (
            {"steps_per_generation": 3, "gradient_accumulation_steps": 2, "num_generations": 2},
            r"grpo\.gradient_accumulation_steps: expected a divisor of .* = 3, got 2",
        ),
    ],
)
def test_wrong_options_are_refused_by_name(values: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=f"^{error}"):
        grpo(**values)


def test_an_error_about_an_option_says_where_it_was_written() -> None:
    locations = Locations({"grpo": "x.yaml, line 3", "grpo.save_steps": "x.yaml, line 4"})
    with pytest.raises(ConfigError, match=r"^x\.yaml, line 4: grpo\.save_steps: "), locating_errors(locations):
        grpo(save_steps=3)
    with pytest.raises(ConfigError, match=r"^x\.yaml, line 3: grpo: "), locating_errors(locations):
        grpo(num_generations=3)


def test_stages_without_sums_may_log_less_often_but_whole_at_a_checkpoint() -> None:
    assert trainer_options("sft", {"logging_steps": 5}, seed=0, folder=FOLDER).logging_steps == 5
    with pytest.raises(ConfigError, match=r"sft\.save_steps: expected a multiple of sft\.logging_steps = 4"):
        trainer_options("sft", {"save_steps": 6, "logging_steps": 4}, seed=0, folder=FOLDER)


@pytest.mark.parametrize(
    ("values", "updates", "prompts"),
    [
        # 8 rows x 2 micro-batches = 16 rollouts = 4 prompts x 4; 2 micro-batches, one update each.
        ({}, 2, 4),
        ({"num_iterations": 3}, 6, 4),
        ({"steps_per_generation": 4, "gradient_accumulation_steps": 2}, 2, 8),
        ({"gradient_accumulation_steps": 2}, 1, 4),
        ({"generation_batch_size": 8}, 1, 2),
    ],
)
def test_the_generation_boundary(values: dict[str, Any], updates: int, prompts: int) -> None:
    options = grpo(**values)
    shape = generation_shape(options)
    assert (shape.updates, shape.prompts, shape.samples) == (updates, prompts, 4)
    assert options.save_steps % updates == 0
    assert 20 <= options.save_steps < 20 + updates
