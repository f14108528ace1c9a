"""The command `geoalign judge`, and what it may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from geoalign.console.command_line import argument, option
from geoalign.console.terminal import Console


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


def judge_command(request: JudgeRequest) -> None:
    """Judge the responses of A against those of B, pair by pair in both orders: win, lose and tie rates, scores.

    Called again on the same folder it resumes; no judged pair is asked for again. The key comes from OPENAI_API_KEY, or
    the variable that --set token_env=NAME names. Exit status 1 where the judge gave no answer for a pair.

    Examples:

      geoalign judge ours.jsonl base.jsonl --output runs/judge \\
          --base-url http://localhost:8000/v1 --model Qwen3-32B
      geoalign judge ours.jsonl base.jsonl --output runs/judge_local --local
    """
    from geoalign.lab.judge.settings import load_judge_config

    config = load_judge_config(request.base_url, request.model, request.overrides, local=request.local)
    from geoalign.lab.judge.judge import judge

    if judge(config, request, console=Console()).overall.failed:
        raise typer.Exit(1)
