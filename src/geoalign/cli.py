"""The commands. What each needs is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from geoalign import __version__
from geoalign.audit.command import AuditRequest, audit_command
from geoalign.console.command_line import add_command, argument, option, run_command_line
from geoalign.console.terminal import Console, say
from geoalign.lab.compare.command import CompareRequest, compare_command
from geoalign.lab.evaluate.command import EvaluateRequest, evaluate_command
from geoalign.lab.judge.command import JudgeRequest, judge_command
from geoalign.lab.train.command import TrainRequest, train_command

app = typer.Typer(
    name="geoalign",
    help="Find wrong rewards in rollouts of language models, and correct them while you train.",
    no_args_is_help=True,
    add_completion=False,
    # Plain text, wrapped to the terminal: no boxes, no types.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        say(Console(), f"geoalign {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find wrong rewards in rollouts of language models, and correct them while you train."""


@dataclass(frozen=True)
class ReportRequest:
    runs: Sequence[Path] = argument("Folders of runs, comparisons or audits.", "DIR")
    compact: Path | None = option(
        "Write a comparison's results there, as one small file to commit or send.", None, "DIR"
    )


@dataclass(frozen=True)
class StatusRequest:
    folder: Path = argument("The folder of a run, comparison, audit, evaluation or judging.", "DIR")


def report_command(request: ReportRequest) -> None:
    """Rebuild the report and figures of runs and audits; of comparisons, also the table, from the results so far."""
    from geoalign.lab.compare.folder import ComparisonFolder
    from geoalign.report import build_report

    if request.compact is not None:
        from geoalign.lab.compare.page import compact_comparison

        if len(request.runs) != 1:
            raise typer.BadParameter("--compact takes the folder of one comparison")
        Console().print(compact_comparison(request.runs[0], request.compact), highlight=False, soft_wrap=True)
        return
    for run in request.runs:
        folder = ComparisonFolder(run)
        if folder.started():
            from geoalign.lab.compare.conclude import conclude

            conclude(folder, Console())
        else:
            say(Console(), build_report(run))


def status_command(request: StatusRequest) -> None:
    """Say where a run, comparison, audit, evaluation or judging stands: who works on it, how far it is, what failed.

    Reads the folder once.

    Example:

      geoalign status runs/quickstart
    """
    from geoalign.status import status

    status(request.folder, Console())


add_command(app, "train", TrainRequest, train_command)
add_command(app, "compare", CompareRequest, compare_command)
add_command(app, "audit", AuditRequest, audit_command)
add_command(app, "evaluate", EvaluateRequest, evaluate_command)
add_command(app, "judge", JudgeRequest, judge_command)
add_command(app, "report", ReportRequest, report_command)
add_command(app, "status", StatusRequest, status_command)


def main() -> None:
    """Runs the command line and exits."""
    run_command_line(app)
