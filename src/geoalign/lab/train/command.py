"""The command `geoalign train`, and what it may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from geoalign.console.command_line import NothingAskedError, argument, option, settings_option
from geoalign.console.terminal import Console
from geoalign.errors import RunFolderError

# What follows the help where the command was called bare.
TRAIN_EXAMPLE = """
Nothing was trained: name a file of settings. For example, as run.yaml:

  model: {type: pretrained, path: Qwen/Qwen3-0.6B}
  task: {type: math, train: problems.jsonl, evaluation: {mine: held_out.jsonl}}
  curator: {type: denoise}
  sft: null
  grpo: {max_steps: 200, learning_rate: 1.0e-6}

Then geoalign train run.yaml --dry-run shows the plan, and
geoalign train run.yaml --output runs/first trains.
"""


@dataclass(frozen=True)
class TrainRequest:
    config: Path | None = argument("Settings of the run.", "CONFIG.yaml", None)
    overrides: Sequence[str] = settings_option("Override one setting; may be repeated.")
    output: Path | None = option(
        "Run folder; default: output.folder, or runs/ and the file's name; of --smoke beside it.", None, "DIR"
    )
    resume: bool = option("Resume the run in the folder; start it where there is none.", False)
    smoke: bool = option("A small version of the run: tiny model, few rows, corrupted rewards, a CPU.", False)
    dry_run: bool = option("Check everything but the weights, print the plan, train nothing.", False)


def train_command(request: TrainRequest) -> None:
    """Train one run: warm start, RL with a curator, evaluation, report.

    A folder with an unfinished run is never overwritten: --resume resumes it. On a finished one the report is rebuilt
    and the closing table printed.

    Examples:

      geoalign train configs/quickstart.yaml --output runs/train
      geoalign train configs/quickstart.yaml --set curator.type=grpo \\
          --output runs/plain_grpo
    """
    from geoalign.lab.runs.folder import RunFolder
    from geoalign.lab.train.read_settings import load_run_config, locating_errors

    config_file = request.config
    resumed = False
    if request.resume and request.output is not None and config_file is None and not request.overrides:
        # A run that is resumed has its settings with it.
        folder = RunFolder(request.output)
        resumed = folder.started()
        if not (resumed or request.smoke or request.dry_run):
            raise RunFolderError(f"{request.output}: no run to resume there; name a file of settings to start one")
        config_file = folder.config if resumed else None
    if not (config_file or request.overrides or request.smoke or request.dry_run):
        raise NothingAskedError(TRAIN_EXAMPLE)
    if request.dry_run and request.smoke:
        raise typer.BadParameter("--dry-run shows the plan at full size: leave --smoke out")
    loaded = load_run_config(config_file, request.overrides)
    # Before a plan is shown: a package that training lacks is named here.
    from geoalign.lab.train.dry_run import default_folder, dry_run_training
    from geoalign.lab.train.smoke import check_exercised, smoke_config, smoke_folder
    from geoalign.lab.train.train import train

    config = loaded.config
    output = request.output
    with locating_errors(loaded.locations):
        if request.dry_run:
            dry_run_training(config, Console(), config_file=request.config, overrides=request.overrides, output=output)
        elif request.smoke and not resumed:
            config = smoke_config(config)
            output = output or smoke_folder(default_folder(config, request.config))
            train(config, output, resume=request.resume, console=Console())
            check_exercised(RunFolder(output), Console())
        else:
            output = output or default_folder(config, request.config)
            train(config, output, resume=request.resume, console=Console())
