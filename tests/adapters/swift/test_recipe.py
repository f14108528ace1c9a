"""The shipped command: the paper's values, as the TRL configuration has them, and by ms-swift's own arguments."""

import json
import os
import runpy
import subprocess
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace

import pytest
from recipe import load

from geoalign.adapters.swift.plug_in import read_settings
from geoalign.curators.denoise import DenoiseConfig
from geoalign.lab.data.task import Problem
from geoalign.lab.train.read_settings import load_run_config
from geoalign.settings.yaml_text import parse_value

ROOT = Path(__file__).parents[3]
FULL = ROOT / "configs" / "full"
# TRL's options under ms-swift's names; what is None has no counterpart.
NAMES = {"vllm_enable_sleep_mode": "sleep_level", "vllm_max_model_length": "vllm_max_model_len"}
NAMES |= {"shuffle_dataset": "dataset_shuffle", "bf16": None, "report_to": None}
FLAGS = {"sleep_level": bool}


def words(model, curator=""):
    given = {"LAUNCH": "printf %s\\n", "MODEL": str(model), "CURATOR": curator}
    line = ["bash", FULL / "swift_dapo_math.sh", "--check_model", "false"]
    run = subprocess.run(line, env={**os.environ, **given}, capture_output=True, text=True, check=True)
    assert run.stdout.split()[-2:] == ["--check_model", "false"]
    return run.stdout.split()


def expected():
    """The values of the TRL configuration by ms-swift's names."""
    grpo = load_run_config(FULL / "math_1.7b" / "geoalign.yaml").config.grpo
    pairs = ((NAMES.get(name, name), value) for name, value in grpo.items())
    return {name: value for name, value in pairs if name is not None}


def test_the_training_is_that_of_the_trl_configuration():
    theirs = load_run_config(FULL / "math_1.7b" / "geoalign.yaml").config
    line = words("model")
    given = {name.removeprefix("--"): value for name, value in zip(line[::2], line[1::2], strict=True)}
    found = {name: FLAGS.get(name, lambda value: value)(parse_value(given[name])) for name in expected()}
    assert found == expected()
    assert {"enable_thinking": parse_value(given["enable_thinking"])} == theirs.model.chat_template_kwargs
    assert (int(given["max_length"]), int(given["seed"])) == (theirs.max_prompt_length, theirs.seed)
    assert f"${{MODEL:-{theirs.model.path}}}" in (FULL / "swift_dapo_math.sh").read_text()
    ours = read_settings(FULL / "swift_dapo_math.yaml")
    assert (ours.curator, ours.hidden_position, ours.seed) == (theirs.curator, theirs.hidden_position, theirs.seed)


def test_another_curator_by_name_trains_the_same_into_a_folder_of_its_own():
    assert set(words("model", "denoise")) - set(words("model")) == {"runs/swift_dapo_math_denoise"}


@pytest.mark.engines
@pytest.mark.skipif("swift" not in packages_distributions(), reason="ms-swift is not installed (make test-swift)")
def test_the_plug_in_file_takes_the_curator_that_is_named(monkeypatch):
    from geoalign.adapters.swift.plug_in import installed_settings

    monkeypatch.syspath_prepend(str(ROOT / "recipes"))
    monkeypatch.setenv("CURATOR", "denoise")
    runpy.run_path(str(ROOT / "recipes" / "dapo_math_swift.py"))
    settings, curator, _ = installed_settings()
    assert (settings.curator, settings.hidden_position, curator) == (DenoiseConfig(), "mean", None)
    assert (settings.log_metrics, settings.second_verifier) == ("all", None)
    monkeypatch.setenv("CURATOR", "appeals")
    monkeypatch.setenv("SECOND_VERIFIER", "mine.py:strict")
    runpy.run_path(str(ROOT / "recipes" / "dapo_math_swift.py"))
    settings, *_ = installed_settings()
    assert (settings.curator.type, settings.second_verifier) == ("appeals", "mine.py:strict")


@pytest.mark.engines
@pytest.mark.skipif("swift" not in packages_distributions(), reason="ms-swift is not installed (make test-swift)")
def test_ms_swift_has_the_deepspeed_settings_that_are_named(monkeypatch):
    from swift.arguments import sft_args

    line = words("model")
    args = SimpleNamespace(deepspeed=line[line.index("--deepspeed") + 1], use_ray=False, callbacks=None)
    args.zero_hpz_partition_size = args.deepspeed_autotp_size = None
    monkeypatch.setattr(sft_args, "require_version", lambda name: None)  # DeepSpeed is not installed here
    sft_args.SftArguments._init_deepspeed(args)
    assert args.deepspeed["zero_optimization"]["stage"] == 2
    assert args.deepspeed["zero_optimization"]["offload_optimizer"]["device"] == "none"


@pytest.mark.engines
@pytest.mark.skipif("swift" not in packages_distributions(), reason="ms-swift is not installed (make test-swift)")
def test_ms_swift_knows_every_option_and_the_plug_in(tmp_path, monkeypatch):
    from swift.arguments import RLHFArguments
    from swift.dataset import load_dataset
    from swift.rewards import orms
    from swift.utils import parse_args
    from trl_parts import model, tokenizer

    from geoalign.adapters.swift.plug_in import installed_settings

    model().save_pretrained(tmp_path / "model")
    tokenizer(None).save_pretrained(tmp_path / "model")
    monkeypatch.chdir(ROOT)
    small = ["--model_type", "qwen3", "--template", "qwen3", "--output_dir", str(tmp_path / "out"), "--use_cpu", "true"]
    line = words(tmp_path / "model")
    zero = line.index("--deepspeed")  # is not installed here
    args, rest = parse_args(RLHFArguments, [*line[:zero], *line[zero + 2 :], *small])
    assert rest == []
    found = {name: getattr(args, name) for name in expected()}
    assert {name: FLAGS.get(name, lambda value: value)(value) for name, value in found.items()} == expected()
    # ms-swift's defaults, which are TRL's too.
    assert (args.top_p, args.top_k, args.epsilon_high, args.dynamic_sample) == (1.0, -1, None, False)
    assert (args.enable_thinking, args.train_dataloader_shuffle, args.training_args.dataset_shuffle) == (False,) * 3
    # The column that the scorer reads is not dropped.
    row = load("dapo_math").ROWS["swift"](
        Problem(id="p", prompt=({"role": "user", "content": "1+1?"},), answer="2"), 0, ""
    )
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    found, _ = load_dataset(str(tmp_path / "train.jsonl"), **args.get_dataset_kwargs())
    assert (found[0]["messages"], found[0]["solution"]) == (row["messages"], "2")
    settings, curator, _ = installed_settings()
    assert (settings, curator) == (read_settings(FULL / "swift_dapo_math.yaml"), None)
    assert args.reward_funcs == ["verified"]
    # math-verify is not installed here; its verdicts: tests/recipes/test_dapo_math.py.
    equal = lambda given, gold: [one == other for one, other in zip(given, gold, strict=True)]  # noqa: E731
    monkeypatch.setitem(orms["verified"].__call__.__globals__, "score", equal)
    assert orms["verified"](args)(["1", "2"], solution=["1", "1"], messages=[]) == [True, False]
