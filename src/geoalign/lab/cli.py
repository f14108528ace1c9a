"""The commands. What each needs is imported when it is called."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from geoalign import __version__
from geoalign.lab.command_line import NothingAskedError, PlainGroup, command, run_command_line
from geoalign.lab.config.requests import (
    AuditRequest,
    BenchRequest,
    CompareRequest,
    EvaluateRequest,
    JudgeRequest,
    ReportRequest,
    StatusRequest,
    TrainRequest,
)
from geoalign.lab.terminal import Console, say
from geoalign.settings.secrets import masked

app = typer.Typer(
    name="geoalign",
    help="Geometric rollout curation for robust reinforcement learning of language models.",
    no_args_is_help=True,
    add_completion=False,
    cls=PlainGroup,
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
    """Geometric rollout curation for robust reinforcement learning of language models."""


# What follows the help where a command was called bare.
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


@command(app, "train", TrainRequest)
def train_command(request: TrainRequest) -> None:
    """Train one run: warm start, RL with a curator, evaluation, report.

    A folder with an unfinished run is never overwritten: --resume resumes it. On a finished one the report is rebuilt
    and the closing table printed.

    Examples:

      geoalign train configs/quickstart.yaml --output runs/train
      geoalign train configs/quickstart.yaml --set curator.type=grpo \\
          --output runs/plain_grpo
    """
    from geoalign.lab.config.loading import load_run_config
    from geoalign.lab.store.run_folder import RunFolder

    config, overrides, output = request.config, request.overrides, request.output
    started = RunFolder(output) if request.resume and not config and not overrides and output else None
    resumed = started is not None and started.started()
    if not (config or overrides or resumed or request.smoke or request.dry_run):
        raise NothingAskedError(TRAIN_EXAMPLE)
    loaded = load_run_config(started.config if started is not None and resumed else config, overrides)
    settings, locations, smoke = loaded.config, loaded.locations, request.smoke and not resumed
    if request.dry_run:
        if request.smoke:
            raise typer.BadParameter("--dry-run shows the plan at full size: leave --smoke out")
        from geoalign.lab.train.rehearsal import dry_run

        dry_run(settings, Console(), locations=locations, config_file=config, overrides=overrides, output=output)
        return
    from geoalign.lab.train.rehearsal import check_exercised, default_folder, smoke_config
    from geoalign.lab.train.train import train

    if output is None:
        output = default_folder(settings, config, smoke=smoke)
    settings = smoke_config(settings) if smoke else settings
    train(settings, output, resume=request.resume, locations=locations, console=Console())
    if smoke:
        check_exercised(settings, RunFolder(output), Console())


@command(app, "compare", CompareRequest)
def compare_command(request: CompareRequest) -> None:
    """Compare curators: arms x levels x seeds from one warm start, a table with confidence intervals, a report.

    Exit status 1 where a run failed: the others finish, the table says which failed and why, --resume tries it again.

    Examples:

      geoalign compare configs/compare_quickstart.yaml --output runs/compare
      geoalign compare --curators grpo,denoise --seeds 0,1,2 \\
          --set run.grpo.max_steps=40
    """
    from geoalign.lab.compare.compare import compare
    from geoalign.lab.config.compare_loading import load_compare_config
    from geoalign.lab.config.loading import Typed, check_options_agree
    from geoalign.lab.store.comparison import ComparisonFolder
    from geoalign.settings.yaml_text import parse_value

    config = request.config
    overrides = [*request.overrides]
    options: list[Typed] = []
    if request.workers is not None:
        options.append(Typed("workers", request.workers, f"--workers {request.workers}"))
        overrides.append(f"workers={request.workers}")
    if request.seeds is not None:
        words = f"--seeds {request.seeds}"
        options.append(Typed("seeds", parse_value(f"[{request.seeds}]", "seeds", words), words))
        overrides.append(f"seeds=[{request.seeds}]")
    check_options_agree(options, request.overrides)
    output = request.output or Path("runs") / (config.stem if config else "compare")
    if request.resume and config is None and ComparisonFolder(output).started():
        config = ComparisonFolder(output).config
    chosen = any(value is not None for value in (config, request.curators, request.seeds, request.levels))
    if not (chosen or request.overrides or request.dry_run):
        raise NothingAskedError(COMPARE_EXAMPLE)
    arms, levels = (
        [name.strip() for name in names.split(",")] if names else None for names in (request.curators, request.levels)
    )
    loaded = load_compare_config(config, overrides, arms=arms, levels=levels)
    if request.dry_run:
        from geoalign.lab.compare.checks import dry_run

        dry_run(loaded.config, Console(), loaded.locations)
        return
    if compare(loaded.config, output, resume=request.resume, locations=loaded.locations, console=Console()):
        raise typer.Exit(1)


@command(app, "audit", AuditRequest)
def audit_command(request: AuditRequest) -> None:
    """Find the rewards that look wrong in these rollouts, and how often the verifier errs; a page shows the rows.

    Reads JSONL (.gz), parquet and .pt of TRL, verl, Trinity-RFT, GeoAlign's runs and others; changes none.

    Examples:

      geoalign audit rollouts.jsonl --second-verifier math_verify
      geoalign audit dumps/ --output runs/dumps --model Qwen/Qwen3-1.7B \\
          --fail-above false_positive=0.1
      geoalign audit scores.jsonl --curator geoalign --hidden states/ \\
          --field reward=rm_score
    """
    from geoalign.lab.audit.inputs import find_inputs, standard_input

    console = Console(quiet=request.json)
    request = replace(request, command=[masked(argument) for argument in sys.argv[1:]])
    with standard_input(request.rollouts) as stdin:
        inputs = find_inputs(request, console, stdin)
        # With torch: what was recognised stands on the terminal by now.
        from geoalign.lab.audit.terminal import bounds_kept, parse_bounds
        from geoalign.lab.config.audit import load_audit_config

        bounds = parse_bounds(request.fail_above)
        config = load_audit_config(request.curator, request.overrides, trust_remote_code=request.trust_remote_code)
        from geoalign.lab.audit.audit import audit

        if request.model is not None:
            from geoalign.lab.models.process_setup import silence_logs

            silence_logs()
        summary = audit(config, request, inputs, console=console)
    if request.json:
        from geoalign.lab.store.json_files import json_text

        sys.stdout.write(json_text(summary))
    code, said = bounds_kept(summary, bounds) if bounds else (0, [])
    for line in said:
        say(Console(stderr=True), line, "red")
    if code:
        raise typer.Exit(code)


@command(app, "evaluate", EvaluateRequest)
def evaluate_command(request: EvaluateRequest) -> None:
    """Evaluate models: accuracy, avg@k and pass@k on benchmarks, responses to dialogues for the judge.

    Every response is kept: --resume generates the missing ones after a stop, for more samples, for further sets and
    models.

    Examples:

      geoalign evaluate runs/math --benchmark aime24=aime24.jsonl \\
          --benchmark mine=problems.csv
      geoalign evaluate Qwen/Qwen3-1.7B --benchmark aime24=aime24.jsonl \\
          --pass-at-k --set engine=vllm
    """
    from geoalign.lab.config.evaluate import load_evaluate_config

    config = load_evaluate_config(request)
    from geoalign.lab.evaluation.evaluate import evaluate

    evaluate(config, request, console=Console())


@command(app, "judge", JudgeRequest)
def judge_command(request: JudgeRequest) -> None:
    """Judge the responses of A against those of B, pair by pair in both orders: win, lose and tie rates, scores.

    Called again on the same folder it resumes; no judged pair is asked for again. The key comes from OPENAI_API_KEY, or
    the variable that --set token_env=NAME names. Exit status 1 where the judge gave no answer for a pair.

    Examples:

      geoalign judge ours.jsonl base.jsonl --output runs/judge \\
          --base-url http://localhost:8000/v1 --model Qwen3-32B
      geoalign judge ours.jsonl base.jsonl --output runs/judge_local --local
    """
    from geoalign.lab.config.judge import load_judge_config

    config = load_judge_config(request.base_url, request.model, request.overrides, local=request.local)
    from geoalign.lab.judge.judge import judge

    if judge(config, request, console=Console()).overall.failed:
        raise typer.Exit(1)


@command(app, "report", ReportRequest)
def report_command(request: ReportRequest) -> None:
    """Rebuild the report and figures of runs and audits; of comparisons, also the table, from the results so far."""
    from geoalign.lab.reports import build_report
    from geoalign.lab.store.comparison import ComparisonFolder

    if request.compact is not None:
        from geoalign.lab.reports.comparison.page import compact_comparison

        if len(request.runs) != 1:
            raise typer.BadParameter("--compact takes the folder of one comparison")
        Console().print(compact_comparison(request.runs[0], request.compact), highlight=False, soft_wrap=True)
        return
    for run in request.runs:
        folder = ComparisonFolder(run)
        if folder.started():
            from geoalign.lab.compare.table import conclude

            conclude(folder, Console())
        else:
            say(Console(), build_report(run))


@command(app, "status", StatusRequest)
def status_command(request: StatusRequest) -> None:
    """Say where a run, comparison, audit, evaluation or judging stands: who works on it, how far it is, what failed.

    Reads the folder once.

    Example:

      geoalign status runs/quickstart
    """
    from geoalign.lab.status import status

    status(request.folder, Console())


@command(app, "bench", BenchRequest)
def bench_command(request: BenchRequest) -> None:
    """Measure time and memory of curation on this machine, by shape."""
    from geoalign.lab.bench.bench import bench

    bench(request, Console())


def main() -> None:
    """Runs the command line and exits."""
    run_command_line(app)
