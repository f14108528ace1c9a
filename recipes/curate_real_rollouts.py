"""Curate real rollouts with the library alone: no trainer, no GPU.

Reads responses with reward-model scores from a JSONL file, takes the hidden state of each response from any Hugging
Face causal language model, lets GeoAlign look for responses that contradict the consensus, and prints each of them with
the response that would replace it.

One line of the file is one problem: `query` (or `question`), `response` (list of texts), `pred_score` (list of scores,
each a number or a list of one), and, where known, `score` (list of booleans: is the answer right).

    python recipes/curate_real_rollouts.py rollouts.jsonl --model Qwen/Qwen3-1.7B
    python recipes/curate_real_rollouts.py rollouts.jsonl        # the model that `make quickstart` trained
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer

from geoalign import Curation, GeoAlign, GeoAlignConfig, Rollouts
from geoalign.errors import GeoAlignError, InputError
from geoalign.hidden import HIDDEN_POSITIONS, extract_states_from_texts

QUICKSTART_MODEL = Path("runs/quickstart/runs/flip_40/denoise/seed-0/checkpoints/final")


@dataclass(frozen=True)
class Response:
    """One response with its reward; `right` is None if the answer was not checked."""

    problem: int
    prompt: str
    text: str
    reward: float
    right: bool | None


def read_responses(path: Path) -> list[Response]:
    """The responses of every problem of the file, in order.

    Raises:
        InputError: a line is not JSON, lacks a field, or its lists differ in length; the message names file and line.
    """
    responses = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            problem = json.loads(line)
            prompt = problem.get("query") or problem["question"]
            texts, scores = problem["response"], problem["pred_score"]
        except (json.JSONDecodeError, KeyError, AttributeError) as error:
            raise InputError(f"{path}:{number}: expected JSON with query, response, pred_score; got {error}") from error
        right = problem.get("score") or [None] * len(texts)
        if not len(texts) == len(scores) == len(right):
            raise InputError(
                f"{path}:{number}: expected as many scores as responses, "
                f"got {len(texts)} responses, {len(scores)} pred_score, {len(right)} score"
            )
        for text, score, verdict in zip(texts, scores, right, strict=True):
            reward = float(score[0] if isinstance(score, list) else score)
            responses.append(Response(number, prompt, text, reward, verdict))
    return responses


def curate(responses: list[Response], model_path: str, options: argparse.Namespace, console: Console) -> Curation:
    """Hidden states from the model, then one call of the curator."""
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    model = AutoModelForCausalLM.from_pretrained(model_path).to(options.device)
    with Progress(console=console) as bar:
        task = bar.add_task("Hidden states", total=len(responses))
        states = extract_states_from_texts(
            model,
            tokenizer,
            [_as_chat(tokenizer, one.prompt) for one in responses],
            [one.text for one in responses],
            position=options.hidden_position,
            layer=options.hidden_layer,
            batch_size=options.batch_size,
            max_tokens=options.max_tokens,
            progress=lambda done: bar.update(task, completed=done),
        )
    if states.cut_rows:
        console.print(f"{states.cut_rows} rows were longer than {options.max_tokens} tokens: their beginning was cut.")
    rollouts = Rollouts(
        rewards=torch.tensor([one.reward for one in responses]),
        groups=torch.tensor([one.problem for one in responses]),
        hidden=states.states,
    )
    curator = GeoAlign(GeoAlignConfig(alpha=options.alpha, scoring=options.scoring))
    return curator.curate(rollouts, generator=torch.Generator().manual_seed(options.seed))


def show(console: Console, responses: list[Response], curation: Curation) -> None:
    """What the curator did, and every flagged response beside its donor."""
    metrics = curation.metrics
    summary = Table(title="Curation", title_justify="left", show_header=False)
    for name in (
        "pairs",
        "scored_rollouts",
        "zero_displacements",
        "heldout_pair_accuracy",
        "new_group_accuracy",
        "raw_cosine_mean",
        "projected_cosine_mean",
        "suspects",
        "replaced",
        "groups_without_donor",
        "seconds",
    ):
        summary.add_row(name, f"{metrics[name]:,.3f}".rstrip("0").rstrip("."))
    console.print(summary)
    console.print("\nFlagged responses and their donors", style="bold")
    ranked = curation.scores.nan_to_num(-1).argsort(descending=True).tolist()
    for row in ranked:
        if curation.anomalous[row]:
            gdi, source = float(curation.scores[row]), int(curation.source[row])
            lines = [f"problem {responses[row].problem}, GDI {gdi:.2f}", f"  flagged  {_line(responses[row])}"]
            lines.append("  no donor: stays" if source == row else f"  donor    {_line(responses[source])}")
            console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _as_chat(tokenizer: AutoTokenizer, prompt: str) -> str:
    if tokenizer.chat_template is None:
        return prompt
    turns = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)


def _line(response: Response, width: int = 60) -> str:
    verdict = "" if response.right is None else ", right" if response.right else ", wrong"
    flat = " ".join(response.text[-400:].split())[-width:]
    # Model output may hold anything: control characters are shown as question marks.
    ending = "".join(character if character.isprintable() else "?" for character in flat)
    return f"reward {response.reward:.2f}{verdict}: ... {ending}"


def _layer(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rollouts", type=Path, help="JSONL file")
    parser.add_argument("--model", help="folder or hub id; default: the model that make quickstart trained")
    parser.add_argument("--alpha", type=float, default=0.12, help="0.12: the paper's value for continuous rewards")
    # In a single call only cross-fitting knows how the consensus does on groups that it was not trained on.
    parser.add_argument("--scoring", choices=["in_sample", "cross_fit"], default="cross_fit")
    parser.add_argument("--hidden-position", choices=HIDDEN_POSITIONS, default="predicting")
    parser.add_argument("--hidden-layer", type=_layer, default=1.0, help="number, or share of the depth")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    console = Console()
    if options.model is None and not QUICKSTART_MODEL.is_dir():
        parser.error(
            f"--model: expected a folder or hub id, or a quickstart run at {QUICKSTART_MODEL} (make quickstart)"
        )
    try:
        responses = read_responses(options.rollouts)
        curation = curate(responses, options.model or str(QUICKSTART_MODEL), options, console)
    except (GeoAlignError, OSError) as error:
        console.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(2)
    show(console, responses, curation)


if __name__ == "__main__":
    main()
