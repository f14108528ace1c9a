"""NeMo-RL's training data, after `log_batched_dict_as_jsonl` (7ea279a)."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS, GROUPS
from geoalign.dumps.formats.format import Format, Row
from geoalign.dumps.values import BadValueError, described


def flatten(row: Row) -> Row:
    """One sample, of which each field is a list of one, with its prompt and response.

    `token_loss_mask` tells the policy's turns, each a run of ones. The environment answers each turn with a message,
    except a last one that it left without an answer. What stands before the first turn is the prompt.
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat[name] = value[0] if isinstance(value, list) and len(value) == 1 else value
    messages = flat.get("content")
    if not isinstance(messages, list) or len(messages) < 2 or not all(isinstance(text, str) for text in messages):
        raise BadValueError("content", "the texts of two messages or more", described(messages))
    mask = flat.get("token_loss_mask")
    if not isinstance(mask, list):
        mask = []
    trained_on = [bool(token) for token in mask[: flat.get("input_lengths")]]
    runs = [is_policy for is_policy, _ in groupby(trained_on)]
    turns = sum(runs)
    ends_with_policy = bool(runs) and runs[-1]
    first_turn = len(messages) - 2 * turns + ends_with_policy
    if not 0 < first_turn < len(messages):
        raise BadValueError("token_loss_mask", "a prompt and turns of the policy", f"{turns} turns")
    last = len(messages) if ends_with_policy else len(messages) - 1
    return {
        **flat,
        "prompt": "\n\n".join(messages[:first_turn]),
        "response": "\n\n".join(messages[first_turn:last]),
        "reward": flat.get("rewards"),
    }


NEMO_RL = Format(
    name="nemo_rl",
    title="training data of NeMo-RL",
    columns=("content", "rewards", "token_loss_mask"),
    flatten=flatten,
    fields={
        "prompt": ("prompt",),
        "response": ("response",),
        "reward": ("reward",),
        "answer": GOLD_ANSWERS,
        "final_answer": FINAL_ANSWERS,
        "group": GROUPS,
    },
    rendered=True,
)
