"""What each command is asked for besides the settings: its arguments and options, from which the command line is made.

Every field with a help is one; it is called as the field unless `option` says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any


def option(help: str, default: Any = MISSING, metavar: str | None = None, **more: Any) -> Any:
    """A field that is an option; without a default it has to be given. Further words are typer's: min, max."""
    return field(default=default, metadata={"help": help, "metavar": metavar, **more})


def argument(help: str, metavar: str, default: Any = MISSING) -> Any:
    """A field that is an argument by its position."""
    return option(help, default, metavar, argument=True)


def _settings(help: str) -> Any:
    return option(help, (), "a.b=c", option="set")


@dataclass(frozen=True)
class TrainRequest:
    config: Path | None = argument("Settings of the run.", "CONFIG.yaml", None)
    overrides: Sequence[str] = _settings("Override one setting; may be repeated.")
    output: Path | None = option(
        "Run folder; default: output.folder, or runs/ and the file's name; of --smoke beside it.", None, "DIR"
    )
    resume: bool = option("Resume the run in the folder; start it where there is none.", False)
    smoke: bool = option("A small version of the run: tiny model, few rows, corrupted rewards, a CPU.", False)
    dry_run: bool = option("Check everything but the weights, print the plan, train nothing.", False)


@dataclass(frozen=True)
class CompareRequest:
    config: Path | None = argument("Settings of the comparison.", "CONFIG.yaml", None)
    curators: str | None = option("Only these arms; or curators by name.", None, "A,B,...")
    seeds: str | None = option("Seeds, instead of the comparison's.", None, "0,1,...")
    levels: str | None = option("Only these levels.", None, "A,B,...")
    overrides: Sequence[str] = _settings("Override one setting; may be repeated.")
    output: Path | None = option("Folder; default: runs/compare, or runs/ and the file's name.", None, "DIR")
    workers: int | None = option("Parallel runs; default: the machine's cores.", None, "N", min=1, max=1024)
    resume: bool = option("Resume the comparison in the folder; start it where there is none.", False)
    dry_run: bool = option("Check every run's settings, print the plan, train nothing.", False)


@dataclass(frozen=True)
class AuditRequest:
    """`geoalign audit`. `curator` and `overrides` are read into its settings; `command` is what was typed."""

    rollouts: Sequence[str] = argument("Dumps of rollouts or folders of them, in step order; - : stdin.", "ROLLOUTS")
    output: Path = option("New folder for the scores, pairs and the page.", Path("runs/audit"), "DIR")
    curator: str | None = option("What judges the rollouts; default: denoise.", None, "NAME")
    hidden: Sequence[Path] = option("States by row: .safetensors, .npy, or a folder of them.", (), "FILE|DIR")
    model: str | None = option("Model that computes the hidden states.", None, "ID_OR_PATH")
    cache: Path | None = option("Keep computed states there; default: in the output.", None, "DIR")
    format: str | None = option(
        "geoalign, trl, trinity, verl, nemo_rl, verifiers, slime, responses or plain.", None, "NAME"
    )
    fields: Sequence[str] = option(
        "Which field of the dumps holds a role; may be repeated.", (), "ROLE=NAME", option="field"
    )
    overrides: Sequence[str] = _settings("A setting, such as curator.alpha=0.1; may be repeated.")
    labels: Sequence[Path] = option(
        "Your labels.csv, or flagged.csv with true rewards in `label`; may be repeated.", (), "FILE"
    )
    second_verifier: str | None = option(
        "Checks the most informative rows: math_verify, a command or https://host/v1.", None, "WHO"
    )
    budget: str = option("Rows, or share of rows, that it checks in each step.", "10%", "N|N%")
    filtered: bool = option("Also write filtered.jsonl: the remaining rollouts, with their new rewards.", False)
    redact: bool = option("Write no texts: no prompts, responses, answers.", False)
    skip_bad: bool = option("Leave bad rows out and list them.", False)
    mixed_groups: bool = option("No longer needed: groups of any size are read.", False)
    overwrite: bool = option("Replace an earlier audit in DIR.", False)
    fail_above: Sequence[str] = option(
        "Exit code 3 where the interval of false_positive or false_negative lies above, 4 where unknown; repeatable.",
        (),
        "RATE=BOUND",
    )
    json: bool = option("Print summary.json and nothing else.", False)
    trust_remote_code: bool = option("Run the Python code that comes with the model.", False)
    command: Sequence[str] = ()


@dataclass(frozen=True)
class EvaluateRequest:
    models: Sequence[str] = argument("Model folders, hub ids, or run folders of `geoalign train`.", "MODEL")
    benchmarks: Sequence[str] = option(
        "Problems with answers: a benchmark's name, or one of your own, and its file or hub id; may be repeated.",
        (),
        "NAME=PATH_OR_ID",
        option="benchmark",
    )
    dialogues: Sequence[str] = option(
        "Dialogue prompts, for the judge; may be repeated.", (), "NAME=PATH_OR_ID", option="dialogue"
    )
    output: Path = option("Folder for this evaluation.", Path("runs/evaluation"), "DIR")
    samples: Sequence[str] = option(
        "Responses per problem, of one set or of all others; default: the benchmark's own.", (), "N|NAME=N"
    )
    pass_at_k: bool = option("As many responses per problem as the paper's pass@k figure: 64, 64, 32.", False)
    temperature: float | None = option("Sampling temperature; default: 1.", None, "T", min=0)
    max_new_tokens: int | None = option(
        "Longest response in tokens; default: 8192 for benchmarks, 1024 for dialogues.", None, "N", min=1
    )
    greedy: bool = option("Greedy decoding; one response.", False)
    checkpoints: bool = option("Evaluate every kept checkpoint of a run: last-five average and EMA.", False)
    save_responses: Path | None = option("Also write .jsonl[.gz] for the judge.", None, "FILE")
    overrides: Sequence[str] = _settings("Another setting, such as engine=vllm; may be repeated.")
    trust_remote_code: bool = option("Run the Python code that comes with the models.", False)
    resume: bool = option(
        "Go on in the folder: what is missing, more samples, further sets and models; start it where there is none.",
        False,
    )


@dataclass(frozen=True)
class JudgeRequest:
    a: Path = argument("Responses, as `geoalign evaluate --save-responses` writes them.", "A")
    b: Path = argument("Responses to the same prompts.", "B")
    output: Path = option("Folder for this judging; an unfinished one is resumed.", metavar="DIR")
    base_url: str | None = option("Address up to and including the version: https://host/v1.", None, "URL")
    model: str | None = option("The model's name at the endpoint.", None, "NAME")
    local: bool = option("Judge by simple rules, without an endpoint: to try the command.", False)
    overrides: Sequence[str] = option(
        "A setting of the judge, such as temperature=1; may be repeated.", (), "a=b", option="set"
    )
    allow_missing: bool = option("Leave out responses that only one file has.", False)


@dataclass(frozen=True)
class ReportRequest:
    runs: Sequence[Path] = argument("Folders of runs, comparisons or audits.", "DIR")
    compact: Path | None = option(
        "Write a comparison's results there, as one small file to commit or send.", None, "DIR"
    )


@dataclass(frozen=True)
class StatusRequest:
    folder: Path = argument("The folder of a run, comparison, audit, evaluation or judging.", "DIR")


@dataclass(frozen=True)
class BenchRequest:
    shapes: Sequence[str] = option("A shape; may be repeated.", (), "GROUPSxKxHIDDEN", option="shape")
    repeats: int = option("Calls per figure; the median is shown.", 3, "N", min=1, max=1000)
    device: str = option("cpu or cuda.", "cpu", "NAME")
    json_file: Path | None = option("Also write the figures here.", None, "FILE", option="json")
