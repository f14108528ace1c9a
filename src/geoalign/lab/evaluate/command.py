"""The command `geoalign evaluate`, and what it may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from geoalign.console.command_line import argument, option, settings_option
from geoalign.console.terminal import Console


@dataclass(frozen=True)
class EvaluateRequest:
    models: Sequence[str] = argument(
        "Model folders, hub ids, or run folders of `geoalign train`; NAME=MODEL names one.", "MODEL"
    )
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
    overrides: Sequence[str] = settings_option("Another setting, such as engine=vllm; may be repeated.")
    trust_remote_code: bool = option("Run the Python code that comes with the models.", False)
    resume: bool = option(
        "Go on in the folder: what is missing, more samples, further sets and models; start it where there is none.",
        False,
    )


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
    from geoalign.lab.evaluate.settings import load_evaluate_config

    config = load_evaluate_config(request)
    from geoalign.lab.evaluate.evaluate import evaluate

    evaluate(config, request, console=Console())
