"""What curation costs and gives on one GPU: a step of 1.7B, SmolLM2's, and four curators compared, by one command.

python -m benchmarks.real_model --model FOLDER --output runs/real_model

1. `python -m benchmarks.overhead` for Qwen3-1.7B's shape with random weights, alone on the GPU: curation of 96 x 16
   rollouts at d = 2048 by GeoAlign and Denoise on the device and on the CPU, states by own pass and by log-probability
   pass, the rest of a step, memory. About 3 minutes by estimate: an update of 96 rollouts is 1.7 PFLOP.
2. The same for the model in FOLDER (SmolLM2), 384 rollouts of 128 + 256 tokens. About 2 minutes.
3. `geoalign compare configs/real/accelerator.yaml` for the time that is left: 40 runs, 8 at a time, about 16 minutes.

All numbers go into `results/real_model.json`, written anew after each step. A step is a process of its own, which may
take half of what is left; a part of it that fails takes no other along. What is finished is never done again: called
again with the same --output, the command goes on, also after it was killed. No network.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

from benchmarks.curation import machine
from geoalign.console.command_line import report
from geoalign.console.terminal import Console, say
from geoalign.errors import ConfigError, GeoAlignError
from geoalign.files.json_files import read_json, write_json
from geoalign.lab.compare.analysis import read_table, table_as_json
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.plan import CellKey, planned_runs
from geoalign.lab.models.settings import TinyModelConfig

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "real" / "accelerator.yaml"
# Kept back for the compact results, and less than what anything is worth starting for.
END_SECONDS, LEAST_SECONDS = 45.0, 20.0

# Name -> arguments of benchmarks.overhead; MODEL stands for the folder.
OVERHEADS = {
    "step_of_1.7b": ("--rows", "96"),
    "step_of_the_model": ("--model", "MODEL", "--rows=384", "--prompt=128", "--response=256", "--micro-batch=16"),
}
SMALL_STEP = ("--groups", "4", "--size", "4", "--prompt", "8", "--response", "8", "--repeats", "1", "--device", "cpu")
SMALL_OVERHEADS = {
    "step_of_1.7b": ("--architecture", "tiny", *SMALL_STEP),
    "step_of_the_model": ("--model", "MODEL", *SMALL_STEP),
}
# The same comparison, so small that a CPU makes it at once. Nothing is learnt.
SMALL = (
    "run.model.lora.target_modules=.*_proj",
    "run.task.train_problems=8",
    "run.task.demonstrations=32",
    "run.task.evaluation_problems=4",
    "run.sft.max_steps=2",
    "run.sft.save_steps=2",
    "run.sft.per_device_train_batch_size=4",
    "run.grpo.max_steps=2",
    "run.grpo.num_generations=4",
    "run.grpo.per_device_train_batch_size=4",
    "run.grpo.save_steps=2",
    "run.grpo.max_completion_length=8",
    "run.evaluation.problems=4",
)
SMALL_RUNS = ("--curators", "grpo,denoise", "--levels", "flip_20", "--seeds", "0")


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    output: Path
    model: Path | None = None
    workers: int | None = None
    minutes: float = 25.0
    small: bool = False

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"--workers: expected at least 1, got {self.workers}")
        if not self.minutes > 0:
            raise ConfigError(f"--minutes: expected a positive number, got {self.minutes:g}")
        if self.small:
            if self.model is not None:
                raise ConfigError(f"--model: expected none with --small, which makes its own, got {self.model}")
        elif self.model is None:
            raise ConfigError("--model: expected the model's folder, got none")
        elif not torch.cuda.is_available():
            raise ConfigError("expected a GPU, got none that torch can use: --small tries the command on a CPU")


@dataclass
class Work:
    """One call of the command: its folders, what is left of its time, and what it could not do, with the reason."""

    options: Options
    console: Console
    started: float = field(default_factory=time.monotonic)
    missing: dict[str, str] = field(
        default_factory=lambda: {name: f"{name}: not finished" for name in (*OVERHEADS, "comparison")}
    )

    @property
    def comparison(self) -> Path:
        return self.options.output / "comparison"

    @property
    def results(self) -> Path:
        return self.options.output / "results"

    def seconds_left(self) -> float:
        """What is left of the time, less what the end takes."""
        return 60 * self.options.minutes - (time.monotonic() - self.started) - END_SECONDS

    def say(self, text: str) -> None:
        say(self.console, f"[{time.monotonic() - self.started:5.0f} s] {text}")

    def run(self, arguments: Sequence[str], *, seconds: float | None = None) -> int | None:
        """Runs a command of Python's, interrupted when its seconds are up: then None, else its exit code."""
        cache = (self.options.output / "cache").resolve()
        own = {"XDG_CACHE_HOME": str(cache), "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(cache / "datasets")}
        environment = {**os.environ, **own, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen([sys.executable, "-m", *arguments], cwd=ROOT, env=environment)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # as Ctrl-C: a comparison stops its processes, and can be resumed
                with suppress(subprocess.TimeoutExpired):
                    process.wait(END_SECONDS / 2)
                process.kill()
                process.wait()


def real_model(options: Options, console: Console) -> int:
    """Does everything, as far as the time goes; returns the exit code: 0 if nothing is missing, else 1."""
    work = Work(options, console)
    work.results.mkdir(parents=True, exist_ok=True)
    work.say(f"Up to {options.minutes:g} minutes; results go to {work.results}")
    try:
        model = model_folder(work)
        for name, arguments in (SMALL_OVERHEADS if options.small else OVERHEADS).items():
            measure_overhead(work, name, [str(model) if word == "MODEL" else word for word in arguments])
            write_results(work)
        compare(work, model)
    finally:  # also where it was interrupted
        write_results(work)
    for text in work.missing.values():
        work.say(f"Missing: {text}")
    if work.missing:
        work.say("Called again with the same --output, the command goes on.")
    work.say(f"All numbers: {work.results / 'real_model.json'}")
    return 1 if work.missing else 0


def model_folder(work: Work) -> Path:
    """The model's folder; with `--small` one made here, with random weights and a token per byte."""
    folder = work.options.output / "small_model" if work.options.small else work.options.model
    assert folder is not None
    if work.options.small and not folder.is_dir():
        from geoalign.lab.models.language_model import initial_model, save_complete
        from geoalign.pretrained.quiet import silence_logs

        silence_logs()
        config = TinyModelConfig(hidden_size=32, layers=2, heads=2)
        save_complete(*initial_model(config, alphabet=None, seed=0), folder)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"--model: expected a folder with a model, got no config.json in {folder}")
    return folder.resolve()


def measure_overhead(work: Work, name: str, arguments: Sequence[str]) -> None:
    """Measures what the curators cost on the GPU alone, unless it was measured whole before."""
    file = work.results / f"{name}.json"
    if file.is_file() and read_json(file)["complete"]:
        work.say(f"{name}: measured before")
        del work.missing[name]
        return
    if work.seconds_left() < LEAST_SECONDS:
        work.missing[name] = f"{name}: not started, the time was up"
        return
    work.say(f"{name}: measuring what the curators cost")
    line = ["benchmarks.overhead", *arguments, "--no-generation", "--json", str(file.resolve())]
    code = work.run(line, seconds=work.seconds_left() / 2)  # one that hangs leaves time for the rest
    if code == 0:
        del work.missing[name]
    else:
        why = "broken off, the time was up" if code is None else f"exit code {code}"
        work.missing[name] = f"{name}: {why}; {'its first parts' if file.is_file() else 'nothing'} measured"


def compare(work: Work, model: Path) -> None:
    """Runs, or goes on with, the comparison until it is finished or the time is up."""
    if work.seconds_left() < LEAST_SECONDS:
        work.missing["comparison"] = "the comparison: not started, the time was up"
        return
    options = work.options
    workers = [] if options.workers is None else ["--workers", str(options.workers)]
    small = [*SMALL_RUNS, *(f"--set={one}" for one in SMALL)] if options.small else []
    changes = [f"--set=run.model.path={model}", *workers, *small]
    work.say(f"The comparison {CONFIG.relative_to(ROOT)}")
    code = work.run(
        ["geoalign", "compare", str(CONFIG), "--output", str(work.comparison.resolve()), "--resume", *changes],
        seconds=max(work.seconds_left(), 1.0),
    )
    if code is None:
        work.say("The time is up: runs that were under way resume from their checkpoints.")
    elif code not in (0, 1):  # 1: a run failed, which is listed below
        work.missing["comparison"] = f"the comparison ended with exit code {code}"
        return
    if ComparisonFolder(work.comparison).started():  # what is missing of it is listed run by run
        del work.missing["comparison"]


def write_results(work: Work) -> None:
    """Writes `real_model.json`: what was measured so far, the comparison's runs and table, and what is missing.

    This process leaves the GPU alone: a context of its own would take memory from those that are measured.
    """
    steps = {name: work.results / f"{name}.json" for name in OVERHEADS}
    folder = ComparisonFolder(work.comparison)
    runs = {cell.name: folder.read_result(cell) or {"status": "missing"} for cell in cells_of(folder)}
    unfinished = [f"{name} ({run['status']})" for name, run in runs.items() if run["status"] != "finished"]
    work.missing.pop("runs", None)
    if unfinished:
        work.missing["runs"] = f"{len(unfinished)} of {len(runs)} runs: {', '.join(unfinished)}"
    write_json(
        work.results / "real_model.json",
        {
            "schema_version": 2,
            "machine": {**machine(), "cores": os.cpu_count()},
            "small": work.options.small,
            "minutes": (time.monotonic() - work.started) / 60,
            **{name: read_json(file) if file.is_file() else None for name, file in steps.items()},
            # Without their settings, which the comparison's folder has.
            "runs": {name: {key: run[key] for key in run if key != "run"} for name, run in runs.items()},
            "table": table_as_json(read_table(work.comparison)) if len(unfinished) < len(runs) else None,
            "missing": list(work.missing.values()),
        },
    )


def cells_of(folder: ComparisonFolder) -> list[CellKey]:
    """The cells of the comparison that was begun in a folder; none where none was."""
    if not folder.started():
        return []
    return [cell for planned in planned_runs(folder.read_config()) for cell in planned.cells]


def options_of(arguments: Sequence[str] | None = None) -> Options:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, metavar="DIR", help="the model's folder")
    parser.add_argument("--output", type=Path, default=Path("runs/real_model"), metavar="DIR", help="(%(default)s)")
    parser.add_argument("--workers", type=int, metavar="N", help="runs at a time, a process each (8, as configured)")
    parser.add_argument("--minutes", type=float, default=25.0, metavar="N", help="stop after so many (%(default)g)")
    parser.add_argument("--small", action="store_true", help="try the whole way on a CPU, with a tiny model")
    return Options(**vars(parser.parse_args(arguments)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command as the command line says; returns the exit code: 2 for an error that one line tells."""
    console = Console()
    try:
        return real_model(options_of(arguments), console)
    except (GeoAlignError, OSError) as error:
        return report(error, console)
    except KeyboardInterrupt:
        say(console, "Stopped. Called again with the same --output, the command goes on.")
        return 130


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):  # both as Ctrl-C, which a shell's background jobs ignore otherwise
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
