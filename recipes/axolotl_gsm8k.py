"""GSM8K for Axolotl (docs/axolotl.md): the prompts, and the reward function that `axolotl_gsm8k.yaml` names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from geoalign.answers.boxed import boxed_answer
from geoalign.answers.forms import normal_form
from geoalign.answers.messages import response_text

TASK = "Reason step by step, and put the final number into \\boxed{}."


def problems(cfg: Any, *args: Any, **kwargs: Any) -> tuple[Callable[..., dict[str, Any]], dict[str, Any]]:
    """Axolotl's `type:` of the data set: how a row becomes a prompt with its gold answer, and which columns go."""

    def to_prompt(row: dict[str, Any], tokenizer: Any = None) -> dict[str, Any]:
        gold = row["answer"].rpartition("####")[2]
        prompt = [{"role": "user", "content": f"{row['question']}\n\n{TASK}"}]
        return {"prompt": prompt, "answer": gold.strip().replace(",", "")}

    return to_prompt, {"remove_columns": ["question"]}


def right(completions: Sequence[Any], answer: Sequence[str], **columns: Any) -> list[float]:
    """1.0 where the last box of a completion holds the gold number, in whatever spelling, else 0.0."""
    boxed = [boxed_answer(response_text(completion)) or "" for completion in completions]
    return [float(normal_form(given) == normal_form(gold)) for given, gold in zip(boxed, answer, strict=True)]
