"""Samples of Inspect's logs: of a `.json` log, or of a `.eval` archive, which `dumps/eval_logs.py` opens.

After github.com/UKGovernmentBEIS/inspect_ai at 499e615: `EvalSample` in src/inspect_ai/log/_log.py, `Score` and
`value_to_float` in src/inspect_ai/scorer/_metric.py, `ChatMessageBase` in src/inspect_ai/model/_chat_message.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.dumps.formats.format import Format, Row
from geoalign.dumps.formats.turns import as_messages, as_one_text, text_of

# What the flat field of a scorer's value is called: `score.match`.
_SCORE = "score."
# What the audit calls its own score in a log that it writes, which is no reward.
SCORER = "geoalign"
# A long text, or a picture, is named by this and a key of the sample's attachments.
_ATTACHMENT = "attachment://"
# The values that scorers give in words.
_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def flatten(row: Row) -> Row:
    """One sample of one epoch: its conversation, and the value of each scorer as a field `score.NAME`."""
    output = row.get("output") or {}
    choices = output.get("choices") or [{}]
    completion = str(output.get("completion") or text_of((choices[0].get("message") or {}).get("content")))
    attachments = row.get("attachments") or {}
    prompt, turns = _conversation(row, completion)
    sample = row.get("id")
    return {
        "prompt": as_messages([(role, _whole(text, attachments)) for role, text in prompt]),
        "response": as_one_text([(role, _whole(text, attachments)) for role, text in turns]),
        # Of several targets any is right.
        "answer": row.get("target") or None,
        "final_answer": _own_answer(row.get("scores") or {}, completion),
        "group": sample,
        "id": f"{sample}/{row.get('epoch')}",
        "tokens": (output.get("usage") or {}).get("output_tokens"),
        "truncated": choices[0].get("stop_reason") in ("max_tokens", "model_length"),
        **_values(row.get("scores") or {}),
    }


def _conversation(row: Row, completion: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The turns (role, text) before the first one that the model generated, and those from it on.

    A log without the messages has the input and the model's last output alone.
    """
    messages = row.get("messages") or []
    generated = [message.get("role") == "assistant" and message.get("source") == "generate" for message in messages]
    if any(generated):
        first = generated.index(True)
        turns = [_turn(message) for message in messages]
        return turns[:first], turns[first:]
    asked = row.get("input")
    prompt = [_turn(message) for message in asked] if isinstance(asked, list) else [("user", str(asked))]
    return prompt, [("assistant", completion)]


def _whole(text: str, attachments: Mapping[str, str]) -> str:
    """A text, or that for which its name among the attachments of the sample stands."""
    return str(attachments.get(text.removeprefix(_ATTACHMENT), text)) if text.startswith(_ATTACHMENT) else text


def _turn(message: Row) -> tuple[str, str]:
    """The role and the text of a message, with calls of tools as `name(arguments)`."""
    texts = [text_of(message.get("content"))]
    for call in message.get("tool_calls") or []:
        name = call.get("function")
        texts.append(f"{name}({json.dumps(call.get('arguments'), ensure_ascii=False)})")
    return str(message.get("role")), "\n".join(text for text in texts if text)


def _values(scores: Mapping[str, Row]) -> dict[str, Any]:
    """By field the value of each scorer, and of each entry where a scorer gives several."""
    values: dict[str, Any] = {}
    for name, score in scores.items():
        value = score.get("value")
        if isinstance(value, Mapping):
            for key, entry in value.items():
                values[f"{_SCORE}{name}.{key}"] = _number(entry)
        else:
            values[f"{_SCORE}{name}"] = _number(value)
    return values


def _number(value: Any) -> Any:
    """A score in words as a number: "C" is 1, "P" a half, "I" and "N" (no answer) are 0; other values as they are."""
    if not isinstance(value, str):
        return value
    if value in _WORDS or value.lower() in _WORDS:
        return _WORDS.get(value, _WORDS.get(value.lower()))
    try:
        number = float(value)
    except ValueError:
        return value
    return number if math.isfinite(number) else value


def _own_answer(scores: Mapping[str, Row], completion: str) -> str | None:
    """The answer that a scorer found in the output; a scorer that names the whole output found none."""
    for score in scores.values():
        answer = score.get("answer")
        # Inspect's `includes` names the output in lower case.
        if isinstance(answer, str) and answer.strip() and answer.strip().lower() != completion.strip().lower():
            return answer
    return None


def reward_columns(rows: Sequence[Row]) -> list[str]:
    """The values of scorers that some row has, but for those of an earlier audit."""
    scored = dict.fromkeys(name for row in rows for name in row if name.startswith(_SCORE))
    names = [name for name in scored if not name.startswith(f"{_SCORE}{SCORER}.")]
    return [name for name in names if any(row.get(name) is not None for row in rows)]


INSPECT = Format(
    name="inspect",
    title="samples of an Inspect log",
    columns=("id", "epoch", "input", "target", "output"),
    flatten=flatten,
    fields={
        "prompt": ("prompt",),
        "response": ("response",),
        "answer": ("answer",),
        "final_answer": ("final_answer",),
        "group": ("group",),
        "id": ("id",),
        "tokens": ("tokens",),
        "truncated": ("truncated",),
    },
    reward_columns=reward_columns,
    reward_may_lack=True,
)
