"""The command of the overhead benchmark: `python -m benchmarks.overhead`."""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.overhead.architectures import ARCHITECTURES
from benchmarks.overhead.curating import curation_cost, denoise_cost
from benchmarks.overhead.generation import generation_cost, why_not_measured
from benchmarks.overhead.options import Options
from benchmarks.overhead.results import Overhead, overhead_json, print_overhead
from benchmarks.overhead.step import PolicyStep, policy_costs
from benchmarks.overhead.timing import Cost
from geoalign.errors import ConfigError
from geoalign.lab.models.process_setup import silence_logs
from geoalign.lab.store.json_files import write_json
from geoalign.lab.terminal import Console

_ABOUT = """What GeoAlign adds to a training step, measured on this machine: the hidden states (a pass of their own, and
as a tap on TRL's log-probability pass), the curation (on the CPU and on the device; the paper's settings and the
library's; with and without the early stop; and Denoise), the rest of the step by TRL's own functions, and vLLM's
generation where vLLM and a GPU are at hand. Weights are random: they do not change the cost. Nothing is downloaded."""


def overhead(options: Options, console: Console) -> Overhead:
    """Measures everything, prints it and returns it.

    Raises:
        ConfigError: an unknown architecture, or a device that is not there.
    """
    _check_device(options.device)
    silence_logs()
    passes: dict[str, Cost] = {}
    no_generation = why_not_measured(options)
    with console.status("Generation") as status:
        if no_generation is None:
            passes["generation"] = generation_cost(options)
        status.update("The policy's passes")
        if options.policy:
            passes |= _passes(options)
        curation = []
        for device in dict.fromkeys([options.device, "cpu"]):
            for setting in ("paper", "default"):
                for early_stop in (True, False):
                    status.update(f"Curation on {device}, {setting} settings")
                    curation.append(curation_cost(options, device=device, setting=setting, early_stop=early_stop))
            status.update(f"Denoise on {device}")
            curation.append(denoise_cost(options, device=device))
    found = Overhead(options, passes, curation, no_generation)
    print_overhead(console, found)
    return found


def _passes(options: Options) -> dict[str, Cost]:
    with tempfile.TemporaryDirectory() as folder:
        costs = policy_costs(PolicyStep(options, Path(folder)))
    gc.collect()  # trainer and model refer to each other; their memory is given back before the curation
    return costs


def _check_device(name: str) -> None:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: expected one that torch can use here, got 'cuda'")


def options_of(arguments: Sequence[str] | None = None) -> tuple[Options, Path | None]:
    """The options of the command line, and the file to write to.

    Raises:
        ConfigError: as `Options`.
    """
    usual = Options()
    parser = argparse.ArgumentParser(description=_ABOUT)
    parser.add_argument("--architecture", choices=ARCHITECTURES, default=usual.architecture)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    numbers = {
        "groups": "prompts of a step",
        "size": "rollouts of each",
        "prompt": "tokens of a prompt",
        "response": "tokens of a response",
        "micro-batch": "rollouts in one pass through the model",
        "repeats": "measured calls of each part",
        "warmups": "calls before them",
        "split": "devices that share the passes in the step to compare with, by arithmetic",
        "seed": "of weights, tokens and batches",
    }
    for name, text in numbers.items():
        default = getattr(usual, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{text} ({default})")
    parser.add_argument("--rows", type=int, metavar="N", help="pass only so many rollouts through, count up the rest")
    parser.add_argument("--rewards", choices=("continuous", "binary"), default=usual.rewards)
    parser.add_argument("--checkpointing", action=argparse.BooleanOptionalAction, default=True, help="of activations")
    parser.add_argument("--policy", action=argparse.BooleanOptionalAction, default=True, help="passes through a model")
    parser.add_argument("--generation", action=argparse.BooleanOptionalAction, default=True, help="by vLLM")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    given = vars(parser.parse_args(arguments))
    file = given.pop("json")
    return Options(**given), file


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark as the command line says."""
    options, file = options_of(arguments)
    console = Console()
    found = overhead(options, console)
    if file is not None:
        write_json(file, overhead_json(found))
        console.print(f"Written to {file}", soft_wrap=True)
