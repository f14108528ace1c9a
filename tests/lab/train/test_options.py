from pathlib import Path
from typing import Any

import pytest
import torch
from trl import GRPOConfig, TrlParser

from geoalign.errors import ConfigError
from geoalign.lab.train.options import check_options, trainer_options
from geoalign.lab.train.prompts import generation_shape, plan_prompts
from geoalign.settings.locations import NOWHERE, Locations

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


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"learning_rat": 1}, ["grpo.learning_rat", "grpo.learning_rate, the nearest", "x.yaml, line 4"]),
        ({"output_dir": "x"}, ["grpo.output_dir", "output.folder"]),
        ({"save_total_limit": 1}, ["grpo.save_total_limit", "output.keep_checkpoints"]),
        (
            {"learning_rate": "fast"},
            ["grpo.learning_rate: expected float (TRL's GRPOConfig), got 'fast'", "x.yaml, line 4"],
        ),
        ({"num_generations": 3}, ["grpo", "from TRL", "divisible by num_generations"]),
        ({"save_steps": 3}, ["grpo.save_steps", "multiple of 2", "got 3"]),
        ({"save_steps": 0.5}, ["grpo.save_steps", "multiple of 2", "got 0.5"]),
        ({"save_steps": 6, "logging_steps": 4}, ["grpo.save_steps", "logging_steps = 4", "got 6"]),
        (
            {"steps_per_generation": 3, "gradient_accumulation_steps": 2, "num_generations": 2},
            ["gradient_accumulation_steps", "divisor", "3", "got 2"],
        ),
    ],
)
def test_wrong_options_are_refused_by_name(values: dict[str, Any], parts: list[str]) -> None:
    locations = Locations({f"grpo.{name}": "x.yaml, line 4" for name in values})
    base = {"per_device_train_batch_size": 8, "num_generations": 4}
    with pytest.raises(ConfigError) as caught:
        trainer_options("grpo", {**base, **values}, seed=0, folder=FOLDER, locations=locations)
    for part in parts:
        assert part in str(caught.value)


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


@pytest.mark.parametrize("values", [{"save_steps": 5, "logging_steps": 2}, {"logging_steps": 0.5}])
def test_the_warm_start_saves_where_it_has_logged(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"sft\.save_steps: expected a multiple of sft\.logging_steps"):
        trainer_options("sft", values, seed=0, folder=FOLDER)


def test_prompts_are_laid_out_epoch_after_epoch() -> None:
    options = grpo(max_steps=10)  # 5 generations x 4 prompts = 20 places
    order, updates = plan_prompts(options, generation_shape(options), problems=9)  # 2 generations an epoch
    assert updates == 10
    assert len(order) == 20
    epochs = [order[start : start + 8] for start in (0, 8)]
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert (order, updates) == plan_prompts(options, generation_shape(options), problems=9)
    longer = grpo(max_steps=12)
    assert plan_prompts(longer, generation_shape(longer), problems=9)[0][:20] == order


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"num_generations": 0}, "num_generations: ZeroDivisionError from TRL"),
        ({"report_to": "nothing"}, "report_to: ValueError from TRL: nothing is not supported"),
        ({"optim": "nothing"}, "optim: ValueError from TRL: nothing is not a valid OptimizerNames"),
        ({"per_device_train_batch_size": 0}, "per_device_train_batch_size: expected at least 1, got 0"),
        ({"num_iterations": 0}, "num_iterations: expected at least 1, got 0"),
        ({"learning_rate": None}, "learning_rate: expected float (TRL's GRPOConfig), got None"),
    ],
)
def test_values_that_an_option_cannot_have(values: dict[str, Any], expected: str) -> None:
    locations = Locations({f"grpo.{name}": "x.yaml, line 4" for name in values})
    with pytest.raises(ConfigError) as caught:
        trainer_options("grpo", values, seed=0, folder=FOLDER, locations=locations)
    assert f"x.yaml, line 4: grpo.{expected}" in str(caught.value)


def test_no_update_at_all_is_refused() -> None:
    options = grpo(num_train_epochs=0)
    with pytest.raises(ConfigError, match=r"grpo\.num_train_epochs: expected at least one update, got 0"):
        plan_prompts(options, generation_shape(options), problems=9)


def test_an_argument_parser_of_the_same_process_changes_no_check() -> None:
    """transformers' parser rewrites the types of TRL's fields: what it has read is text to it."""
    TrlParser((GRPOConfig,))
    with pytest.raises(ConfigError, match=r"grpo\.model_init_kwargs: expected dict\[str, typing\.Any\] | str | None"):
        check_options("grpo", {"model_init_kwargs": 3}, NOWHERE)
