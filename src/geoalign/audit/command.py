"""The command `geoalign audit`, and what it may be asked."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from geoalign.console.command_line import argument, option, settings_option
from geoalign.console.terminal import Console, say
from geoalign.secrets import masked


@dataclass(frozen=True)
class AuditRequest:
    """`geoalign audit`. `curator` and `overrides` are read into its settings; `command` is what was typed."""

    rollouts: Sequence[str] = argument("Dumps of rollouts or folders of them, in step order; - : stdin.", "ROLLOUTS")
    output: Path = option("New folder for the scores, pairs and the page.", Path("runs/audit"), "DIR")
    curator: str | None = option("What judges the rollouts; default: denoise.", None, "NAME")
    hidden: Sequence[Path] = option("States by row: .safetensors, .npy, or a folder of them.", (), "FILE|DIR")
    model: str | None = option("Model that computes the hidden states.", None, "ID_OR_PATH")
    cache: Path | None = option("Keep computed states there; default: in the output.", None, "DIR")
    format: str | None = option("Format of the dumps; default: the one whose columns fit.", None, "NAME")
    fields: Sequence[str] = option(
        "Which field of the dumps holds a role; may be repeated.", (), "ROLE=NAME", option="field"
    )
    overrides: Sequence[str] = settings_option("A setting, such as curator.alpha=0.1; may be repeated.")
    labels: Sequence[Path] = option(
        "Your labels.csv, or flagged.csv with true rewards in `label`; may be repeated.", (), "FILE"
    )
    second_verifier: str | None = option(
        "Checks the most informative rows: math_verify, MODULE:NAME, a command or https://host/v1.", None, "WHO"
    )
    verifiers: Sequence[str] = option(
        "Judges all rows: math_verify, MODULE:NAME, a command, https://host/v1, or NAME=one of these; repeatable.",
        (),
        "WHO",
    )
    verifier_rows: Sequence[str] = option(
        "Let --verifiers judge N rows drawn at random, or the one of this NAME alone; repeatable.", (), "N|NAME=N"
    )
    budget: str | None = option(
        "Rows, or share of rows, that the second verifier checks in each step; default: 10%.", None, "N|N%"
    )
    draw_checks: int | None = option("Draw rows at random, for you to label in DIR/checks.csv.", None, "N", min=1)
    checks: Path | None = option("Your labelled checks.csv: error rates with 95% intervals.", None, "FILE")
    check_with: str | None = option(
        "Labels the drawn rows: gold (the file's answers), or as --second-verifier.", None, "WHO"
    )
    anytime: bool = option("Intervals by checks that hold however often you look; wider.", False)
    filtered: bool = option("Also write filtered.jsonl: the remaining rollouts, with their new rewards.", False)
    export: Path | None = option(
        "Also write the data set without suspicious gold answers: one prompt a line.", None, "FILE"
    )
    export_relabel: bool = option("In the export, give such prompts the proposed answer instead.", False)
    export_above: float | None = option(
        "From this score on a gold answer is suspicious there; default: 0.5.", None, "SCORE"
    )
    export_inspect: Path | None = option(
        "Also write a log for `inspect view` (.eval or .json), with flags and reasons.", None, "FILE"
    )
    redact: bool = option("Write no texts: no prompts, responses, answers.", False)
    skip_bad: bool = option("Leave bad rows out and list them.", False)
    overwrite: bool = option("Replace an earlier audit in DIR.", False)
    fail_above: Sequence[str] = option(
        "Exit code 3 where the interval of false_positive or false_negative lies above, 4 where unknown; repeatable.",
        (),
        "RATE=BOUND",
    )
    json: bool = option("Print summary.json and nothing else.", False)
    trust_remote_code: bool = option("Run the Python code that comes with the model.", False)
    command: Sequence[str] = ()


def audit_command(request: AuditRequest) -> None:
    """Find the rewards that look wrong in these rollouts, and how often the verifier errs; a page shows the rows.

    Reads JSONL (.gz), parquet and .pt of TRL, verl, Trinity-RFT, GeoAlign's runs and others; changes none.

    Examples:

      geoalign audit rollouts.jsonl --second-verifier math_verify
      geoalign audit rollouts.jsonl --verifiers math_verify \\
          --verifiers mine.py:strict --verifiers 'python judge.py'
      geoalign audit dumps/ --output runs/dumps --model Qwen/Qwen3-1.7B \\
          --fail-above false_positive=0.1
      geoalign audit scores.jsonl --curator geoalign --hidden states/ \\
          --field reward=rm_score
    """
    from geoalign.audit.inputs import find_inputs, standard_input

    console = Console(quiet=request.json)
    request = replace(request, command=[masked(argument) for argument in sys.argv[1:]])
    with standard_input(request.rollouts) as stdin:
        inputs = find_inputs(request, console, stdin)
        from geoalign.audit.bounds import check_bounds, parse_bounds
        from geoalign.audit.settings import load_audit_config

        bounds = parse_bounds(request.fail_above)
        config = load_audit_config(request.curator, request.overrides, trust_remote_code=request.trust_remote_code)
        # With torch: what was recognised stands on the terminal by now, and what was typed is known to be possible.
        from geoalign.audit.pipeline import run_audit
        from geoalign.audit.terminal import show_report
        from geoalign.files.json_files import json_text

        if request.model is not None:
            from geoalign.pretrained.quiet import silence_logs

            silence_logs()
        report = run_audit(config, request, inputs, console=console, with_texts=False)
    if request.json:
        sys.stdout.write(json_text(report.summary))
    else:
        show_report(console, report)
        if request.export_inspect is not None:
            folder = shlex.quote(str(request.export_inspect.parent))
            console.print()
            say(console, f"The log for Inspect's viewer: inspect view --log-dir {folder}")
    outcome = check_bounds(report.summary, bounds)
    for line in outcome.sentences:
        say(Console(stderr=True), line, "red")
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)
