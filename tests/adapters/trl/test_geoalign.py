"""GeoAlign itself inside TRL, from a user's constructor and from the command line of the recipe."""

import inspect
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from first_ten_steps import engine_metrics
from recipe import RECIPES, load
from trl import GRPOConfig, GRPOTrainer, ModelConfig, ScriptArguments, TrlParser
from trl_parts import digits, model, tokenizer

from geoalign import DenoiseConfig, GeoAlignConfig, ProjectorConfig
from geoalign.adapters.trl import GeoAlignMixin
from geoalign.curators.registry import CURATORS
from geoalign.errors import ConfigError
from geoalign.lab.train.read_settings import load_run_config

FULL = Path(__file__).parents[3] / "configs" / "full"


@pytest.mark.parametrize("name", ["geoalign", "grpo", "denoise"])
def test_settings_parse_beside_trls(tmp_path, name):
    """No field of a curator's settings collides with one of TRL's dataclasses."""
    parser = TrlParser((ScriptArguments, CURATORS[name].config_class, GRPOConfig, ModelConfig))
    arguments = ["--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false"]
    assert parser.parse_args_and_config(arguments)[1] == CURATORS[name].config_class()


def test_command_line(tmp_path):
    parser = TrlParser((ScriptArguments, GeoAlignConfig, GRPOConfig, ModelConfig))
    given = ["--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false"]
    chosen = "--alpha 0.1 --aggregation mean --strategy drop --projector"
    config = parser.parse_args_and_config([*given, *chosen.split(), '{"layers": 2}'])[1]
    plain = {"alpha": 0.1, "aggregation": "mean", "strategy": "drop"}
    assert config == GeoAlignConfig(projector=ProjectorConfig(layers=2), **plain)
    bare = parser.parse_args_and_config([*given, "--projector", "none"])[1]
    assert bare.projector is None
    file = tmp_path / "settings.yaml"
    file.write_text("alpha: 0.2\nprojector: {layers: 1}\nuse_cpu: true\nbf16: false\noutput_dir: here\n")
    assert parser.parse_args_and_config(["--config", str(file)])[1].projector == ProjectorConfig(layers=1)


def words_of(line, curator=""):
    """What the script would run, word by word."""
    environment = {**os.environ, "LAUNCH": "printf %s\\n", "CURATOR": curator}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_whole_command_takes_another_curator_by_name():
    script = FULL / "trl_dapo_math.sh"
    words = words_of(["bash", script], "denoise")
    assert set(words) - set(words_of(["bash", script])) == {"denoise", "mean", "runs/trl_dapo_math_denoise"}
    assert load("trl_grpo").curator_class(words[1:]) is DenoiseConfig


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing:FutureWarning")
def test_the_whole_command_takes_every_curator_by_name():
    module = load("trl_grpo")
    script = ["bash", FULL / "trl_dapo_math.sh", "--use_cpu", "true", "--bf16", "false"]  # here is no GPU
    for name in CURATORS:
        words = words_of(script, name)[1:]
        arguments, *_ = module.make_parser(words).parse_args_and_config(words, fail_with_unknown_args=True)
        assert (arguments.curator, arguments.hidden_position, arguments.log_metrics) == (name, "mean", "all")


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing:FutureWarning")
def test_the_page_s_command_with_a_second_verifier_is_read():
    page = (FULL / "commands.md").read_text("utf-8")
    command = re.search(r"`CURATOR=appeals bash configs/full/trl_dapo_math\.sh (.*?)`", page)
    own = shlex.split(command.group(1))
    on_cpu = ["--use_cpu", "true", "--bf16", "false"]
    words = words_of(["bash", FULL / "trl_dapo_math.sh", *own, *on_cpu], "appeals")[1:]
    module = load("trl_grpo")
    arguments, *_ = module.make_parser(words).parse_args_and_config(words, fail_with_unknown_args=True)
    assert module.as_data(arguments.curator) == {"type": "appeals", "budget": 150}
    assert (arguments.hidden_position, arguments.second_verifier) == ("mean", "mine.py:strict")


@pytest.mark.parametrize(("launch", "stage"), [("data_parallel", None), ("zero2", 2)])
def test_the_whole_command_is_launched_on_eight_gpus(launch, stage):
    """By accelerate's own launcher, up to where it would start the processes."""
    words = words_of(["bash", FULL / "trl_dapo_math.sh"])
    line = ["--config_file", str(FULL / "launch" / f"{launch}.yaml"), *words]
    given, *_ = _validate_launch_command(launch_command_parser().parse_args(line))
    assert (given.training_script, given.training_script_args) == (words[0], words[1:])
    assert (given.num_processes, given.num_machines, given.mixed_precision) == (8, 1, "bf16")
    assert (given.multi_gpu, given.use_deepspeed, given.zero_stage) == (stage is None, stage is not None, stage)


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing:FutureWarning")
def test_the_whole_command_is_the_full_size_configuration(monkeypatch):
    """By TRL's own parser: every option of configs/full, the curator, the prompt and the scorer."""
    script, theirs = FULL / "trl_dapo_math.sh", load_run_config(FULL / "math_1.7b" / "geoalign.yaml").config
    line = ["bash", script, "--use_cpu", "true", "--bf16", "false"]  # here is no GPU; bf16 is looked for in the words
    words = words_of(line)
    assert (words[0], words[words.index("--bf16") + 1]) == ("recipes/trl_grpo.py", "true")
    module = load("trl_grpo")
    parser = module.make_parser(words[1:])
    arguments, curator, trained, model_of = parser.parse_args_and_config(words[1:], fail_with_unknown_args=True)
    expected = {name: value for name, value in theirs.grpo.items() if name not in ("bf16", "report_to")}
    assert {name: getattr(trained, name) for name in expected} == expected
    assert f"--config_file {theirs.launch.accelerate}" in script.read_text()
    chat = theirs.model.chat_template_kwargs
    assert (curator, trained.seed, trained.chat_template_kwargs) == (theirs.curator, theirs.seed, chat)
    assert (model_of.model_name_or_path, model_of.dtype) == (theirs.model.path, theirs.model.dtype)
    # The adapter's own defaults: with vLLM the states come from the log-probability pass, which is free.
    defaults = inspect.signature(GeoAlignMixin.__init__).parameters
    assert defaults["hidden_source"].default == "auto"
    assert (theirs.hidden_position, theirs.hidden_source) == (arguments.hidden_position, "auto")
    monkeypatch.chdir(RECIPES.parent)
    assert module.load_reward(*arguments.reward_funcs)(["\\boxed{1}"], answer=["1"]) == [1.0]


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("page", ["recipes/trl_grpo.py"])
def test_the_first_command_generates_enough_to_be_curated(page):
    text = (RECIPES.parent / page).read_text("utf-8").replace("\\\\\n", "\\\n").replace("\\\n", " ")
    words = shlex.split(re.search(r"accelerate launch .*?recipes/trl_grpo.py(.*)", text).group(1), comments=True)
    parser = TrlParser((load("trl_grpo").RecipeArguments, GeoAlignConfig, GRPOConfig, ModelConfig))
    line = [*words, "--use_cpu", "true", "--bf16", "false"]
    _, curator, trained, _ = parser.parse_args_and_config(line, fail_with_unknown_args=True)
    assert trained.generation_batch_size >= 2 * curator.min_scores


def test_the_recipe_takes_a_curator_by_name(tmp_path, capsys):
    module = load("trl_grpo")
    assert module.curator_class([]) is DenoiseConfig
    assert module.curator_class(["--alpha", "0.1", "--curator", "geoalign"]) is GeoAlignConfig
    assert module.curator_class(["--curator=pods"]) is CURATORS["pods"].config_class
    (tmp_path / "settings.yaml").write_text("curator: geoalign\nalpha: 0.1\n")
    assert module.curator_class(["--config", str(tmp_path / "settings.yaml")]) is GeoAlignConfig
    (tmp_path / "settings.yaml").write_text("curator: {type: appeals, budget: 4}\n")
    assert module.curator_class(["--config", str(tmp_path / "settings.yaml")]) is module.SectionAlone
    with pytest.raises(ConfigError, match="expected one of"):
        module.curator_class(["--curator", "nobody"])


def test_the_recipe_takes_the_settings_of_an_endpoint_from_a_file(tmp_path):
    module = load("trl_grpo")
    file = tmp_path / "settings.yaml"
    file.write_text("second_verifier_endpoint: {model: NAME}\noutput_dir: out\nuse_cpu: true\nbf16: false\n")
    words = ["--config", str(file)]
    arguments, *_ = module.make_parser(words).parse_args_and_config(words)
    assert module.as_data(arguments.second_verifier_endpoint) == {"model": "NAME"}
    assert module.as_data('{"model": "NAME"}') == {"model": "NAME"}


TRAININGS = {
    "denoise": [],
    "geoalign": ["--curator", "geoalign", "--alpha", "0.5", "--min_scores", "8"],
    "appeals": ["--curator", '{"type": "appeals", "budget": 4}', "--second_verifier", "my_rewards:always"],
}
TRAININGS["geoalign"] += ["--projector", '{"hidden_dim": 16, "output_dim": 8, "steps": 5}']
TRAININGS["appeals"] += ["--log_metrics", "all"]


@pytest.mark.parametrize("name", TRAININGS)
def test_recipe_trains(tmp_path, monkeypatch, name):
    model().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "data").mkdir()
    rows = [json.dumps({"prompt": f"{i}+{i}=", "answer": str(2 * i)}) for i in range(16)]
    (tmp_path / "data" / "train.jsonl").write_text("\n".join(rows))
    always = "def always(prompts, completions, **columns):\n    return [1.0 for _ in completions]\n"
    (tmp_path / "my_rewards.py").write_text(f"from trl_parts import digits\n\n\n{always}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    module = load("trl_grpo")
    line = (
        "--model_name_or_path model --dataset_name data --reward_funcs my_rewards.digits --output_dir out "
        "--use_cpu true --bf16 false --per_device_train_batch_size 32 --num_generations 8 --max_completion_length 10 "
        "--max_steps 1 --logging_steps 1 --report_to none --beta 0.05"
    )
    words = [*line.split(), *TRAININGS[name]]
    made = module.main(*module.make_parser(words).parse_args_and_config(words, fail_with_unknown_args=True))
    assert made.curator.config.type == name
    logged = made.state.log_history[0]
    assert "geoalign/changed_share" in logged
    assert ("geoalign/raw_reward" in logged) == ("all" in words)
    assert logged.get("geoalign/appeals") == (4 if name == "appeals" else None)
    # What the page of the first ten steps names is there; what compares with vLLM, in TRL's own words.
    absent = engine_metrics("TRL") - set(logged)
    assert all(sampled.startswith("sampling/") for sampled in absent)
    assert all(f'"{sampled}"' in inspect.getsource(GRPOTrainer) for sampled in absent)
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_recipe_names_a_bad_reward_path():
    for path in ("accuracy", ""):
        with pytest.raises(ValueError, match="expected an import path"):
            load("trl_grpo").load_reward(path)
    assert load("trl_grpo").load_reward("trl_parts.digits")(["12"]) == digits(["12"])
