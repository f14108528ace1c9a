"""The command of the overhead benchmark, `python -m benchmarks.overhead`: shares of a step, goals, a table, JSON."""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from benchmarks.curation import machine
from benchmarks.overhead.curating import (
    ARCHITECTURES,
    Cost,
    CurationCost,
    Options,
    architecture_of,
    curation_cost,
    denoise_cost,
)
from benchmarks.overhead.step import PolicyStep, generation_cost, policy_costs, why_not_measured
from geoalign.console.terminal import Console
from geoalign.errors import ConfigError
from geoalign.files.json_files import finite, write_json
from geoalign.pretrained.quiet import silence_logs
from geoalign.text import one_line

# To reach on one H200; the paper: 4 to 8 s, 300 to 500 MB, about 1% of a step.
GOAL_SECONDS, STRETCH_SECONDS, GOAL_MEGABYTES, GOAL_SHARE = 0.1, 0.05, 300.0, 0.01

REST = ("generation", "log-probability pass", "update", "optimizer")
_PACKAGES = ("torch", "transformers", "trl", "accelerate", "vllm")


@dataclass(frozen=True)
class Overhead:
    """All that was measured so far; `no_generation`: why generation was not, None where it was; `failed`: what raised.

    `states_difference`: of own pass and log-probability pass, as `PolicyStep.difference` says; None: not measured.
    """

    options: Options
    passes: Mapping[str, Cost]
    curation: Sequence[CurationCost]
    no_generation: str | None
    states_difference: float | None = None
    failed: Sequence[str] = ()

    @property
    def rest(self) -> float:
        """Seconds of what a step without a curator is made of, as far as it was measured."""
        return sum(self.passes[name].median for name in REST if name in self.passes)

    @property
    def reference(self) -> CurationCost | None:
        """The curation that the goals are for: on the benchmark's device, the paper's settings with the early stop."""
        wanted = (self.options.device, "paper", True)
        return next((one for one in self.curation if (one.device, one.setting, one.early_stop) == wanted), None)

    def share(self, seconds: float, curation: CurationCost | None = None) -> float:
        """`seconds` of a step with own hidden pass and that curation (or the reference); NaN: a pass is missing."""
        one = curation or self.reference
        if "optimizer" not in self.passes or one is None:
            return math.nan
        return seconds / (self.rest + self.passes["hidden pass"].median + one.cost.median)


def print_overhead(console: Console, found: Overhead) -> None:
    """Prints the parts of a step with their shares, the stages of curation, the goals, and what limits them."""
    options = found.options
    for text in found.failed:
        console.print(f"Failed: {text}", soft_wrap=True, highlight=False, markup=False)
    if (reference := found.reference) is None:  # what there is stands in the JSON
        return
    console.print(", ".join(f"{name} {value}" for name, value in hardware(options).items()), highlight=False)
    title = (
        f"A step of {options.model or f'{options.architecture} with random weights'}: "
        f"{options.groups} x {options.size} rollouts of {options.prompt} + {options.response} tokens, "
        f"{options.repeats} repeats"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for name in ("seconds", "extra MB", "share of the step"):
        table.add_column(name, justify="right")
    for name in REST:
        if name in found.passes:
            _add(table, name, found.passes[name], found.share(found.passes[name].median))
        else:
            table.add_row(name, "not measured", "", "")
    table.add_section()
    for name, label in (("hidden pass", "hidden states: own pass"), ("tap", "hidden states: tapped instead")):
        if name in found.passes:
            _add(table, label, found.passes[name], found.share(found.passes[name].median))
    table.add_section()
    for one in found.curation:
        _add(table, f"curation: {one.label}", one.cost, found.share(one.cost.median, one))
    console.print(table)
    console.print(_stage_table(found.curation))
    if found.states_difference is not None:
        console.print(f"States of own pass and tap: {found.states_difference:.1e} of their length apart, at most")
    for line in [*_goals(found, reference), *_notes(found, reference)]:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def overhead_json(found: Overhead, *, complete: bool = True) -> dict[str, Any]:
    """Everything measured, with hardware, versions and seed; NaN as null. `complete`: nothing is to come."""
    options, one = found.options, found.reference
    record = {
        "schema_version": 1,
        "complete": complete,
        "failed": list(found.failed),
        "machine": hardware(options),
        "versions": _versions(),
        "options": asdict(options),
        "architecture": asdict(architecture_of(options)),
        "passes": {name: _cost_json(cost) for name, cost in found.passes.items()},
        "generation_not_measured": found.no_generation,
        "states_difference": found.states_difference,
        "curation": [
            {**asdict(each), "cost": _cost_json(each.cost), "share": found.share(each.cost.median, each)}
            for each in found.curation
        ],
        "shares": {
            **{name: found.share(cost.median) for name, cost in found.passes.items()},
            "curation": math.nan if one is None else found.share(one.cost.median),
        },
    }
    plain = finite(record)
    assert isinstance(plain, dict)
    return plain


def hardware(options: Options) -> dict[str, str | int | float]:
    """What it ran on, and how busy that was when it ended."""
    found: dict[str, str | int | float] = {**machine(), "cores": os.cpu_count() or 0, "load": os.getloadavg()[0]}
    if (file := Path("/proc/cpuinfo")).is_file():
        model = re.search(r"^model name\s*:(.*)", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        found |= {"processor": model[1].strip()} if model else {}
    if torch.device(options.device).type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(torch.device(options.device))
        found["cuda"] = str(torch.version.cuda)
    return found


def _versions() -> dict[str, str]:
    known = {dist.metadata["Name"].lower() for dist in importlib.metadata.distributions() if dist.metadata["Name"]}
    return {name: importlib.metadata.version(name) for name in _PACKAGES if name in known}


def _cost_json(cost: Cost) -> dict[str, Any]:
    return {"median": cost.median, "seconds": list(cost.seconds), "megabytes": cost.megabytes, "scale": cost.scale}


def _add(table: Table, label: str, cost: Cost, share: float) -> None:
    spread = f" ({min(cost.seconds):,.4f} to {max(cost.seconds):,.4f})" if len(cost.seconds) > 1 else ""
    memory = "not measured" if math.isnan(cost.megabytes) else f"{cost.megabytes:,.0f}"
    scaled = "" if cost.scale == 1 else " *"
    table.add_row(label, f"{cost.median:,.4f}{spread}{scaled}", memory, "" if math.isnan(share) else f"{share:.2%}")


def _stage_table(curation: Sequence[CurationCost]) -> Table:
    rows = [one for one in curation if one.stages]
    table = Table(title="Curation stage by stage: milliseconds, waited for after each", title_justify="left")
    for name in ("curation", "", *rows[0].stages, "steps"):
        table.add_column(name, justify="right" if name in rows[0].stages or name == "steps" else "left")
    for one in rows:
        cells = [f"{1000 * value:,.1f}" for value in one.stages.values()]
        stop = "early stop" if one.early_stop else "all steps"
        table.add_row(f"{one.device}, {one.setting}", stop, *cells, f"{one.steps:g}")
    return table


def _goals(found: Overhead, one: CurationCost) -> list[str]:
    seconds, memory, share = one.cost.median, one.cost.megabytes, found.share(one.cost.median)
    stretch = "within" if seconds <= STRETCH_SECONDS else "not within"
    lines = [
        f"Goals, for curation on {one.device} with the paper's settings (they are meant for one H200):",
        f"  time: {1000 * seconds:,.1f} ms, {_within(seconds, GOAL_SECONDS)} {1000 * GOAL_SECONDS:g} ms, {stretch} the "
        f"stretch of {1000 * STRETCH_SECONDS:g} ms",
        "  memory: not measured (only on a GPU)"
        if math.isnan(memory)
        else f"  memory: {memory:,.0f} MB, {_within(memory, GOAL_MEGABYTES)} {GOAL_MEGABYTES:g} MB",
    ]
    if math.isnan(share):
        return [*lines, "  share of the step: not measured (--no-policy)"]
    return [*lines, f"  share of the step: {share:.2%}, {_within(share, GOAL_SHARE)} {GOAL_SHARE:.0%}"]


def _within(value: float, goal: float) -> str:
    return "within" if value <= goal else "not within"


def _notes(found: Overhead, one: CurationCost) -> list[str]:
    options = found.options
    lines = [f"Curated: {one.pairs:,.0f} pairs, {one.replaced:g} rollouts replaced, in the mean of the measured calls."]
    if found.no_generation is not None and options.policy:
        lines.append(f"Generation was not measured ({found.no_generation}): shares are of a step without it.")
    if options.passed != options.rollouts:
        lines.append(f"* {options.passed} of {options.rollouts} rollouts were passed through, the seconds multiplied.")
    return lines


_ABOUT = """What GeoAlign adds to a training step, measured on this machine: the hidden states (a pass of their own, and
as a tap on TRL's log-probability pass), the curation (on the CPU and on the device; the paper's settings and the
library's; with and without the early stop; and Denoise), the rest of the step by TRL's own functions, and vLLM's
generation where vLLM and a GPU are at hand. Weights are random: they do not change the cost. Nothing is downloaded."""


def overhead(options: Options, console: Console, file: Path | None = None) -> Overhead:
    """Measures everything, prints it and returns it; what there is goes to `file` after each part.

    Raises:
        ConfigError: an unknown architecture, or a device that is not there.
    """
    _check_device(options.device)
    silence_logs()
    found = Overhead(options, {}, [], why_not_measured(options))
    with console.status("Generation") as status:
        # First, while this process holds no memory of the GPU.
        if found.no_generation is None:
            try:
                found = replace(found, passes={"generation": generation_cost(options)})
            except Exception as error:  # whatever vLLM raises: the rest can be measured without
                found = replace(found, no_generation=f"it failed: {one_line(error)}")
        for name, part in _parts(options):
            status.update(name)
            try:
                measured = part()
                for one in [measured] if isinstance(measured, CurationCost) else measured:
                    found = _with(found, one)
                    _write(found, file, complete=False)
            except Exception as error:  # whatever a GPU raises, memory first of all: other parts can be measured
                found = replace(found, failed=[*found.failed, f"{name}: {one_line(error)}"])
    _write(found, file, complete=not found.failed)
    print_overhead(console, found)
    return found


Passes = tuple[dict[str, Cost], float]


def _parts(options: Options) -> Iterator[tuple[str, Callable[[], CurationCost | Iterable[Passes]]]]:
    """Name and measurement of each part, in order."""
    for device in dict.fromkeys([options.device, "cpu"]):
        # Beside a GPU the CPU is measured once: with the paper's settings a call takes a minute of a core there.
        here = options if device == options.device else replace(options, repeats=1, warmups=0)
        for setting, stop in product(("paper", "default"), (True, False)):
            cost = partial(curation_cost, here, device=device, setting=setting, early_stop=stop)
            yield f"Curation on {device}, {setting} settings, {'early stop' if stop else 'all steps'}", cost
        yield f"Denoise on {device}", partial(denoise_cost, here, device=device)
        if options.policy and device == options.device:
            yield "The policy's passes", partial(_passes, options)


def _with(found: Overhead, one: CurationCost | Passes) -> Overhead:
    if isinstance(one, CurationCost):
        return replace(found, curation=[*found.curation, one])
    return replace(found, passes={**found.passes, **one[0]}, states_difference=one[1])


def _write(found: Overhead, file: Path | None, *, complete: bool) -> None:
    if file is not None:
        write_json(file, overhead_json(found, complete=complete))


def _passes(options: Options) -> Iterator[Passes]:
    with tempfile.TemporaryDirectory() as folder:
        step = PolicyStep(options, Path(folder))
        difference = step.difference()
        for costs in policy_costs(step):
            yield costs, difference
    del step
    gc.collect()  # trainer and model refer to each other; their memory is given back before more is curated
    if options.device == "cuda":
        torch.cuda.empty_cache()


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
    parser.add_argument("--model", metavar="DIR", help="a folder with a model, in the place of random weights")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    numbers = {
        "groups": "prompts of a step",
        "size": "rollouts of each",
        "prompt": "tokens of a prompt",
        "response": "tokens of a response",
        "micro-batch": "rollouts in one pass through the model",
        "repeats": "measured calls of each part",
        "warmups": "calls before them",
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
    """Runs the benchmark as the command line says; exit code 1 where a part failed."""
    options, file = options_of(arguments)
    console = Console()
    failed = overhead(options, console, file).failed
    if file is not None:
        console.print(f"Written to {file}", soft_wrap=True)
    if failed:
        raise SystemExit(1)
