"""GRPO, GeoAlign, Denoise and the oracle on a pretrained model, and what they cost, by one command on one GPU.

python -m benchmarks.real_model --model FOLDER --output runs/real_model

1. `python -m benchmarks.overhead`, alone on the GPU: hidden states, curation of 96 x 16 rollouts at d = 2048 by
   GeoAlign and Denoise, shares of a step. About 3 minutes by estimate: 96 of 1,536 rollouts are passed through, which
   is 1.7 PFLOP an update.
2. `geoalign compare configs/real/accelerator.yaml`: 40 runs, 8 at a time. About 16 minutes by the estimate there.
3. `geoalign report --compact`: the results as small files.

Nothing of this was run on a GPU yet. What is finished is never done again: called again with the same --output, the
command goes on, also after its time was up or it was killed. It needs no network.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from geoalign.errors import ConfigError, GeoAlignError, RunFolderError
from geoalign.lab.bench.command import machine
from geoalign.lab.command_line import report
from geoalign.lab.config.compare import Place, make_plan
from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.json_files import write_json
from geoalign.lab.terminal import Console, say

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "real" / "accelerator.yaml"
# Kept back for the compact results, and less than what anything is worth starting for.
END_SECONDS, LEAST_SECONDS = 45.0, 20.0

OVERHEAD = ("--rows", "96", "--no-generation")
SMALL_OVERHEAD = (
    "--architecture", "tiny", "--groups", "4", "--size", "4", "--prompt", "8", "--response", "8", "--repeats", "1",
    "--device", "cpu", "--no-generation",
)  # fmt: skip
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
    missing: list[str] = field(default_factory=list)

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
            process.send_signal(signal.SIGINT)  # as Ctrl-C: a comparison stops its processes, and can be resumed
            try:
                process.wait(END_SECONDS / 2)
            except subprocess.TimeoutExpired:
                process.kill()
            return None
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def real_model(options: Options, console: Console) -> int:
    """Does everything, as far as the time goes; returns the exit code: 0 if nothing is missing, else 1."""
    work = Work(options, console)
    work.results.mkdir(parents=True, exist_ok=True)
    work.say(f"Up to {options.minutes:g} minutes; results go to {work.results}")
    model = model_folder(work)
    measure_overhead(work)
    compare(work, model)
    write_results(work)
    for text in work.missing:
        work.say(f"Missing: {text}")
    if work.missing:
        work.say("Called again with the same --output, the command goes on.")
    work.say(f"Compact results: {work.results}")
    return 1 if work.missing else 0


def model_folder(work: Work) -> Path:
    """The model's folder; with `--small` one made here, with random weights and a token per byte."""
    folder = work.options.output / "small_model" if work.options.small else work.options.model
    assert folder is not None
    if work.options.small and not folder.is_dir():
        from geoalign.lab.models.models import initial_model, save_complete
        from geoalign.lab.models.process_setup import silence_logs

        silence_logs()
        config = TinyModelConfig(hidden_size=32, layers=2, heads=2)
        save_complete(*initial_model(config, alphabet=None, seed=0), folder)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"--model: expected a folder with a model, got no config.json in {folder}")
    return folder.resolve()


def measure_overhead(work: Work) -> None:
    """Measures what the curators cost on the GPU alone, unless it was measured before."""
    file = work.results / "overhead.json"
    if file.is_file():
        work.say("What the curators cost was measured before.")
        return
    if work.seconds_left() < LEAST_SECONDS:
        work.missing.append(f"{file.name}: not started, the time was up")
        return
    work.say("Measuring what the curators cost")
    measured = SMALL_OVERHEAD if work.options.small else OVERHEAD
    code = work.run(["benchmarks.overhead", *measured, "--json", str(file.resolve())], seconds=work.seconds_left())
    if code != 0:
        work.missing.append(f"{file.name}: " + ("broken off, the time was up" if code is None else f"exit code {code}"))


def compare(work: Work, model: Path) -> None:
    """Runs, or goes on with, the comparison until it is finished or the time is up."""
    if work.seconds_left() < LEAST_SECONDS:
        work.missing.append("the comparison: not started, the time was up")
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
    if code == 2:
        raise ConfigError(f"{CONFIG}: the comparison was refused; the reason stands above")
    if code is None:
        work.say("The time is up: runs that were under way resume from their checkpoints.")
    elif code not in (0, 1):  # 1: a run failed, which is listed below
        work.missing.append(f"the comparison ended with exit code {code}")


def write_results(work: Work) -> None:
    """Writes the finished runs compactly, and `real_model.json`: the machine, and which runs are there."""
    folder = ComparisonFolder(work.comparison)
    planned = cells_of(folder)
    results = {cell.name: (folder.read_result(cell) or {}).get("status", "missing") for cell in planned}
    finished = [name for name, status in results.items() if status == "finished"]
    if any(status != "missing" for status in results.values()):
        compact = str((work.results / "comparison").resolve())
        code = work.run(["geoalign", "report", str(work.comparison.resolve()), "--compact", compact])
        if code != 0:
            raise RunFolderError(f"{work.comparison}: its results could not be written, exit code {code}")
    if len(finished) < len(results):
        states = ", ".join(f"{name} ({status})" for name, status in results.items() if status != "finished")
        work.missing.append(f"{len(results) - len(finished)} of {len(results)} runs: {states}")
    elif not results:
        work.missing.append("all runs")
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    write_json(
        work.results / "real_model.json",
        {
            "schema_version": 1,
            "machine": {**machine(), "gpu": gpu, "cores": os.cpu_count()},
            "small": work.options.small,
            "minutes": (time.monotonic() - work.started) / 60,
            "runs": results,
            "missing": work.missing,
        },
    )


def cells_of(folder: ComparisonFolder) -> list[Place]:
    """The cells of the comparison that was begun in a folder; none where none was."""
    if not folder.started():
        return []
    return [cell for planned in make_plan(folder.read_config()) for cell in planned.cells]


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


if __name__ == "__main__":
    sys.exit(main())
