"""GRPO with a curator on any model, data set and reward function: TRL's own `scripts/grpo.py` with three changed lines.

The lines marked [1], [2] and [3] are all that a script of your own needs. `--curator NAME` takes another curator than
`denoise`; its settings are on the command line beside TRL's (`--least_slope`, or with `--curator geoalign` `--alpha`,
`--strategy`, `--projector '{"layers": 2}'`, ...). `--help` lists them all, and `--config FILE` reads them from YAML.
`appeals`, `monitor` and `geoalign_released` have settings of the same name as another option: they stand at their
defaults, or with `--curator` as a section, `--curator '{"type": "appeals", "budget": 32}'`.

    accelerate launch --num_processes 1 recipes/trl_grpo.py --model_name_or_path Qwen/Qwen3-0.6B \\
        --dataset_name trl-lib/DeepMath-103K --reward_funcs trl.rewards.accuracy_reward --output_dir runs/deepmath \\
        --num_generations 8 --gradient_accumulation_steps 16

TRL's default, one prompt a generation, is too little to learn from. With `python` alone TRL refuses
a node of several GPUs. For 8 of them: configs/full/trl_dapo_math.sh.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import yaml
from datasets import load_dataset
from trl import GRPOConfig, ModelConfig, ScriptArguments, TrlParser, get_peft_config, get_quantization_config

from geoalign.adapters.trl import GeoAlignGRPOTrainer  # [1] instead of trl.GRPOTrainer
from geoalign.curators.registry import CURATORS, CuratorSettings, as_curator


@dataclass
class RecipeArguments(ScriptArguments):
    """TRL's script arguments, the reward functions by import path, and what a curator reads."""

    reward_funcs: list[str] = field(
        default_factory=lambda: ["trl.rewards.accuracy_reward"],
        metadata={"help": "Import paths of reward functions, such as 'my_rewards.length_reward'."},
    )
    curator: str = field(
        default="denoise",
        metadata={"help": "Name of the curator, whose settings are options, too; or a section, '{\"type\": ...}'."},
    )
    hidden_position: str = field(
        default="mean", metadata={"help": "Where in a response its state is read: mean, predicting or final."}
    )
    log_metrics: Literal["headline", "all"] = field(
        default="headline", metadata={"help": "headline: five metrics of each curation and what went wrong; all: each."}
    )
    second_verifier: str | None = field(
        default=None,
        metadata={
            "help": "Judges the rows that appeals asks about: math_verify, MODULE:NAME, a command or an address."
        },
    )
    second_verifier_endpoint: str = field(default="{}", metadata={"help": 'For an address: \'{"model": "NAME"}\'.'})


@dataclass
class SectionAlone:
    """Stands for a curator none of whose settings are options: all that is said of it stands in `--curator`."""


def load_reward(path: str) -> Callable[..., Any]:
    """The function at a dotted import path; modules of the current folder are found too."""
    module, _, name = path.rpartition(".")
    if not module:
        raise ValueError(f"reward_funcs: expected an import path such as 'my_rewards.length_reward', got {path!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return getattr(import_module(module), name)


def as_data(given: str | dict[str, Any]) -> Any:
    """An option as data: on the command line it is YAML or JSON as text, in a file of settings it is data already."""
    return yaml.safe_load(given) if isinstance(given, str) else given


def curator_class(arguments: Sequence[str]) -> type[Any]:
    """The class whose fields are the curator's options: `--curator`, or `curator` in the file of `--config`, names it.

    It is `SectionAlone` where the curator is given as a section, or where one of its settings has the name of another
    option.
    """
    named = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    named.add_argument("--curator")
    named.add_argument("--config")
    given, _ = named.parse_known_args(arguments)
    name = given.curator
    if name is None and given.config is not None:
        name = (yaml.safe_load(Path(given.config).read_text(encoding="utf-8")) or {}).get("curator")
    section = as_data(name or RecipeArguments.curator)
    if not isinstance(section, str):
        return SectionAlone
    settings = CURATORS[section].config_class
    others = {other.name for parsed in (RecipeArguments, GRPOConfig, ModelConfig) for other in fields(parsed)}
    clashes = others & {own.name for own in fields(settings)}
    return SectionAlone if clashes else settings


def make_parser(arguments: Sequence[str]) -> TrlParser:
    """The parser of TRL's options and those of the curator that the arguments name."""
    settings = curator_class(arguments)  # [3] the curator's settings among the others
    return TrlParser((RecipeArguments, settings, GRPOConfig, ModelConfig))


def main(
    script_args: RecipeArguments,
    curator_config: CuratorSettings | SectionAlone,
    training_args: GRPOConfig,
    model_args: ModelConfig,
) -> GeoAlignGRPOTrainer:
    """Trains, saves the model, and returns the trainer."""
    training_args.model_init_kwargs = {
        "revision": model_args.model_revision,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
        **(training_args.model_init_kwargs or {}),
    }
    dataset = load_dataset(
        script_args.dataset_name, name=script_args.dataset_config, streaming=script_args.dataset_streaming
    )
    if isinstance(curator_config, SectionAlone):
        curator = as_curator(as_data(script_args.curator))
    else:
        curator = as_curator(curator_config)
    evaluated = training_args.eval_strategy != "no"
    trainer = GeoAlignGRPOTrainer(
        model=model_args.model_name_or_path,
        reward_funcs=[load_reward(path) for path in script_args.reward_funcs],
        args=training_args,
        train_dataset=dataset[script_args.dataset_train_split],
        eval_dataset=dataset[script_args.dataset_test_split] if evaluated else None,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
        curator=curator,  # [2] the curator, and where it reads states
        hidden_position=script_args.hidden_position,
        log_metrics=script_args.log_metrics,
        second_verifier=script_args.second_verifier,
        second_verifier_endpoint=as_data(script_args.second_verifier_endpoint),
    )
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    trainer.save_model(training_args.output_dir)
    trainer.accelerator.print(f"Model saved to {training_args.output_dir}.")
    return trainer


if __name__ == "__main__":
    main(*make_parser(sys.argv[1:]).parse_args_and_config(fail_with_unknown_args=True))
