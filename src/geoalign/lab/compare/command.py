"""The command `geoalign compare`, and what it may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from geoalign.console.command_line import NothingAskedError, argument, option, settings_option
from geoalign.console.terminal import Console

# What follows the help where the command was called bare.
COMPARE_EXAMPLE = """
Nothing was compared: name a file of settings. For example, as compare.yaml,
beside the settings of one run in run.yaml:

  run: run.yaml
  arms: {grpo: null, denoise: null, clean: null}
  levels: {flip_10: {reward: {flip: 0.1}}}
  seeds: [0, 1, 2]

Then geoalign compare compare.yaml --dry-run shows the plan, and
geoalign compare compare.yaml --output runs/compare trains.
"""


@dataclass(frozen=True)
class CompareRequest:
    config: Path | None = argument("Settings of the comparison.", "CONFIG.yaml", None)
    curators: str | None = option("Only these arms; or curators by name.", None, "A,B,...")
    seeds: str | None = option("Seeds, instead of the comparison's.", None, "0,1,...")
    levels: str | None = option("Only these levels.", None, "A,B,...")
    overrides: Sequence[str] = settings_option("Override one setting; may be repeated.")
    output: Path | None = option("Folder; default: runs/compare, or runs/ and the file's name.", None, "DIR")
    workers: int | None = option("Parallel runs; default: the machine's cores.", None, "N", min=1, max=1024)
    resume: bool = option("Resume the comparison in the folder; start it where there is none.", False)
    dry_run: bool = option("Check every run's settings, print the plan, train nothing.", False)


def compare_command(request: CompareRequest) -> None:
    """Compare curators: arms x levels x seeds from one warm start, a table with confidence intervals, a report.

    Exit status 1 where a run failed: the others finish, the table says which failed and why, --resume tries it again.

    Examples:

      geoalign compare configs/compare_quickstart.yaml --output runs/compare
      geoalign compare --curators grpo,denoise --seeds 0,1,2 \\
          --set run.grpo.max_steps=40
    """
    from geoalign.lab.compare.compare import compare
    from geoalign.lab.compare.folder import ComparisonFolder
    from geoalign.lab.compare.read_settings import load_compare_config

    overrides = [*request.overrides]
    if request.seeds is not None:
        overrides.insert(0, f"seeds=[{request.seeds}]")
    if request.workers is not None:
        overrides.insert(0, f"workers={request.workers}")

    config = request.config
    output = request.output or Path("runs") / (config.stem if config else "compare")
    if request.resume and config is None and ComparisonFolder(output).started():
        config = ComparisonFolder(output).config
    asked = (config, request.curators, request.seeds, request.levels)
    if all(value is None for value in asked) and not (request.overrides or request.dry_run):
        raise NothingAskedError(COMPARE_EXAMPLE)
    loaded = load_compare_config(config, overrides, arms=_names(request.curators), levels=_names(request.levels))
    if request.dry_run:
        from geoalign.lab.compare.checks import dry_run_comparison

        dry_run_comparison(loaded.config, Console(), loaded.locations)
        return
    failed = compare(loaded.config, output, resume=request.resume, locations=loaded.locations, console=Console())
    if failed:
        raise typer.Exit(1)


def _names(text: str | None) -> list[str] | None:
    """The names between commas; None where nothing was given."""
    return [name.strip() for name in text.split(",")] if text else None
