import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from geoalign.answers.messages import rendered, token_ids
from geoalign.console.terminal import Console
from geoalign.errors import ConfigError
from geoalign.lab.data.task import Demonstration, Problem
from geoalign.lab.models.language_model import make_tiny_model, make_tokenizer, save
from geoalign.lab.models.settings import PretrainedModelConfig, TinyModelConfig
from geoalign.lab.train.options import generation_shape, trainer_options
from geoalign.lab.train.plan import check_depth, plan_prompts, prompt_lengths, short_enough
from geoalign.lab.train.read_settings import parse_run_config
from geoalign.lab.train.rehearsal import launch_command
from geoalign.lab.train.settings import RunConfig
from geoalign.settings.locations import Locations

FOLDER = Path("nowhere")
TOKENIZER = make_tokenizer("abc", max_length=64)


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
        ({"learning_rat": 1}, ["learning_rat", "grpo.learning_rate, the nearest"]),
        ({"output_dir": "x"}, ["output_dir", "output.folder"]),
        ({"data_seed": 5}, ["data_seed: expected to be left out (use seed), got 5"]),
        ({"learning_rate": "fast"}, ["learning_rate: expected float (TRL's GRPOConfig), got 'fast'"]),
        ({"num_generations": 3}, ["num_generations", "from TRL", "divisible by num_generations"]),
        ({"num_generations": 0}, ["num_generations: ZeroDivisionError from TRL"]),
        ({"report_to": "nothing"}, ["report_to: ValueError from TRL: nothing is not supported"]),
        ({"optim": "nothing"}, ["optim: ValueError from TRL: nothing is not a valid OptimizerNames"]),
        ({"per_device_train_batch_size": 0}, ["per_device_train_batch_size: expected at least 1, got 0"]),
        ({"save_steps": 3}, ["save_steps", "multiple of 2", "got 3"]),
        ({"logging_steps": 4}, ["logging_steps: expected 1, got 4: every update is a line", "leave it out"]),
        ({"logging_steps": 0.25}, ["logging_steps: expected 1, got 0.25"]),
        (
            {"steps_per_generation": 3, "gradient_accumulation_steps": 2, "num_generations": 2},
            ["gradient_accumulation_steps", "divisor", "3", "got 2"],
        ),
    ],
)
def test_wrong_options_are_refused_by_file_line_and_name(values: dict[str, Any], parts: list[str]) -> None:
    locations = Locations({f"grpo.{name}": "x.yaml, line 4" for name in values})
    base = {"per_device_train_batch_size": 8, "num_generations": 4}
    with pytest.raises(ConfigError) as caught:
        trainer_options("grpo", {**base, **values}, seed=0, folder=FOLDER, locations=locations)
    for part in ("x.yaml, line 4: grpo.", *parts):
        assert part in str(caught.value)


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


def test_prompts_are_laid_out_epoch_after_epoch() -> None:
    options = grpo(max_steps=10)  # 5 generations x 4 prompts = 20 places
    order, updates = plan_prompts(options, generation_shape(options), problems=9)  # 2 generations an epoch
    assert updates == 10
    assert len(order) == 20
    epochs = [order[start : start + 8] for start in (0, 8)]
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    assert epochs[0] != epochs[1]
    longer = grpo(max_steps=12)
    assert plan_prompts(longer, generation_shape(longer), problems=9)[0][:20] == order
    with pytest.raises(ConfigError, match=r"grpo\.num_train_epochs: expected at least one update, got 0"):
        plan_prompts(grpo(num_train_epochs=0), generation_shape(options), problems=9)


def problems(*texts: str) -> list[Problem]:
    return [Problem(text, ({"role": "user", "content": text},), "") for text in texts]


def test_lengths_are_those_of_the_chat_template() -> None:
    short, long = problems("a", "abcabc")
    assert prompt_lengths([], TOKENIZER, {}) == []
    first, second = prompt_lengths([short, long], TOKENIZER, {})
    assert second == first + 5
    assert first == len(token_ids([rendered(short.prompt, TOKENIZER)], TOKENIZER)[0])


def test_prompts_within_the_limit_stay_in_their_order() -> None:
    def kept(items: Any, limit: int) -> list[Any]:
        config = parse_run_config({"max_prompt_length": limit})
        return short_enough(items, config, TOKENIZER, Console(file=said, width=100), what="prompts")

    said, items = io.StringIO(), problems("abc", "abcabc", "a", "abcab")
    edge = prompt_lengths(items[:1], TOKENIZER, {})[0]
    assert [item.id for item in kept(items, edge)] == ["abc", "a"]
    assert said.getvalue() == f"2 of 4 prompts left out: more than max_prompt_length = {edge} tokens\n"
    assert len(kept([Demonstration(item.prompt, "b" * 50) for item in items], edge)) == 2
    with pytest.raises(ConfigError, match="max_prompt_length: expected a limit that some of the 2 prompts keep, got 2"):
        kept(problems("abc", "abcab"), 2)


@pytest.fixture
def saved(tmp_path):
    LlamaConfig(num_hidden_layers=3, hidden_size=16, num_attention_heads=2).save_pretrained(tmp_path)
    return PretrainedModelConfig(path=str(tmp_path))


def test_layers_that_are_there_pass_and_others_are_refused_with_their_place(saved):
    check_depth(RunConfig(model=saved, hidden_layer=[0, 3, 0.5]))
    check_depth(RunConfig(model=TinyModelConfig(layers=2), hidden_layer=2))
    # The last layer needs no depth: nothing is read.
    check_depth(RunConfig(model=PretrainedModelConfig(path="/nowhere")))
    where = Locations({"hidden_layer": "run.yaml, line 3"})
    with pytest.raises(ConfigError, match=r"run\.yaml, line 3: hidden_layer: expected at most 3, .* got 4"):
        check_depth(RunConfig(model=saved, hidden_layer=[1, 4]), where)
    with pytest.raises(ConfigError, match="hidden_layer: expected at most 2, the model's depth, got 3"):
        check_depth(RunConfig(model=TinyModelConfig(layers=2), hidden_layer=3))
    with pytest.raises(ConfigError, match=r"model\.path: expected a model, got '/nowhere'"):
        check_depth(RunConfig(model=PretrainedModelConfig(path="/nowhere"), hidden_layer=1))


# The dry run.


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    model, problems = tmp_path / "model", tmp_path / "problems.jsonl"
    tokenizer = make_tokenizer(None, max_length=4096)
    save(make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=1), tokenizer, seed=0), tokenizer, model)
    (model / "model.safetensors").unlink()  # no weight is ever read
    rows = [{"question": f"What is {'1 + ' * number}1?", "answer": str(number + 1)} for number in range(20)]
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "model": {"type": "pretrained", "path": str(model)},
        "task": {"type": "math", "train": str(problems), "evaluation": {"kept": str(problems)}},
        "sft": None,
        "grpo": {
            "num_generations": 4,
            "per_device_train_batch_size": 2,
            "steps_per_generation": 4,
            "gradient_accumulation_steps": 2,
            "num_train_epochs": 1,
            "max_completion_length": 32,
            "use_vllm": True,
            "bf16": True,
        },
        "evaluation": {"every": 3, "samples": {"kept": 2}},
        "launch": {"processes": 4},
    }


def test_the_plan_counts_what_all_processes_do(settings: dict[str, Any], said: Any, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    text = said(settings, config_file=Path("mine.yaml"), overrides=["seed=3"])
    # 2 rollouts x 4 processes x 4 micro-batches = 32 = 8 prompts x 4; 4 / 2 = 2 updates; 20 problems: 2 generations.
    assert "8 prompts x 4 = 32 rollouts, 4 processes" in text
    assert "4 in 2 generations, 2 on each" in text
    assert "64, of at most 32 tokens" in text
    assert "20 problems x 2" in text
    assert "before and after RL, every 3 updates" in text
    # 128 rollouts a process, where the settings say nothing.
    assert "16 prompts x 128 = 2,048 rollouts, 8 processes" in said(
        {**settings, "grpo": {"num_generations": 128}, "launch": {"processes": 8}}
    )
    assert "What is 1" in text
    assert "accelerate launch --num_processes 4 -m geoalign train mine.yaml --set seed=3 --output runs/mine" in text
    assert "Not checked" not in text
    assert sorted(tmp_path.rglob("*")) == before


def test_a_reward_server_need_not_run_yet_and_too_long_prompts_are_counted(settings: dict[str, Any], said: Any) -> None:
    model = {"url": "http://127.0.0.1:9", "timeout": 1, "patience": 1}
    text = said({**settings, "reward": {"model": model}, "max_prompt_length": 130})
    assert "Not checked: the reward's server" in text
    left = int(text.partition(" of 20 training prompts left out")[0].rpartition(" ")[2])
    assert f"training prompts │ {20 - left}: median" in text


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"task": {"type": "math", "train": "gone.jsonl"}}, "gone.jsonl: expected a local file"),
        ({"grpo": {"num_generation": 4}}, "grpo.num_generations, the nearest known key"),
        ({"evaluation": {"samples": {"keep": 2}}}, "evaluation.samples.kept, the nearest known key"),
        ({"model": {"type": "pretrained", "path": "/nowhere"}}, "model.path: expected a tokenizer"),
    ],
)
def test_what_is_wrong_is_found(settings: dict[str, Any], said: Any, change: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        said({**settings, **change})


def test_the_launch_command() -> None:
    config = parse_run_config({"launch": {"processes": 8, "accelerate": "a b.yaml"}, "output": {"folder": "runs/x"}})
    assert launch_command(config, Path("c.yaml"), []) == (
        "accelerate launch --config_file 'a b.yaml' -m geoalign train c.yaml --output runs/x"
    )
    assert launch_command(parse_run_config({}), None, []) == "geoalign train --output runs/default"
    assert launch_command(parse_run_config({}), None, [], Path("my run")) == "geoalign train --output 'my run'"
