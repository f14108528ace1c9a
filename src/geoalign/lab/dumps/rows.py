"""One row of a dump as rollouts: every value checked, none guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.lab.dumps import values
from geoalign.lab.dumps.formats import TRINITY, VERL, Layout
from geoalign.lab.dumps.values import BadValueError, Messages
from geoalign.lab.tasks.json_rows import RawRow
from geoalign.lab.tasks.parquet_rows import Unreadable
from geoalign.lab.tasks.rows import field_of


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout of a dump.

    `row` is its row in the file and `sample` its number among the responses to its prompt, both from 0; `line` is the
    line or row in a parquet file, from 1. `position` counts the rollouts of the file, skipped rows included: the row of
    its hidden state. A reward of NaN could not be scored. `label` is the true reward where a person knows it.
    """

    row: int
    sample: int
    line: int
    position: int
    step: int | None
    group: str
    id: str
    prompt: str
    messages: Messages | None
    response: str
    reward: float
    true_reward: float | None = None
    correct: bool | None = None
    answer: str | None = None
    final_answer: str | None = None
    tokens: int | None = None
    truncated: bool | None = None
    label: float | None = None

    @property
    def best_reward(self) -> float:
        """The label; without one, the reward that the dump has."""
        return self.reward if self.label is None else self.label


class RowReader:
    """Makes rollouts of the rows of one file; texts that come again are kept once.

    Raises:
        BadValueError: from every method, for the first field that is missing or of another kind.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._texts: dict[str, str] = {}

    def rollouts(self, raw: RawRow, value: Mapping[str, Any], position: int) -> list[Row]:
        """The rollouts of a row: one, or those of its list; the first one's hidden state is row `position`."""
        if self.layout.format.lists:
            return list(self._of_list(raw, value, position))
        return [self._of_row(raw, value, position)]

    def _of_row(self, raw: RawRow, value: Mapping[str, Any], position: int) -> Row:
        fields = self.layout.fields
        for role in ("prompt", "response", "group"):
            if role in fields and field_of(value, fields[role]) is None:
                got = "null" if fields[role] in value else "no such field"
                raise BadValueError(fields[role], f"the {role} of the rollout", got)
        prompt, messages = self._prompt(value)
        response = ""
        if "response" in fields:
            response = values.response(fields["response"], field_of(value, fields["response"]))
        step = step_of(self.layout, value)
        return Row(
            row=raw.number,
            sample=0,
            line=raw.line,
            position=position,
            step=step,
            group=self._kept(_group(self.layout, value)),
            id=_id(self.layout, value, raw.number),
            prompt=prompt,
            messages=messages,
            response=response,
            reward=_reward(self.layout, value),
            true_reward=_optional(values.number, fields, "true_reward", value),
            correct=_optional(values.truth, fields, "correct", value),
            answer=_optional(values.short_text, fields, "answer", value),
            final_answer=_optional(values.short_text, fields, "final_answer", value),
            tokens=_optional(values.count, fields, "tokens", value),
            truncated=_truncated(self.layout, value),
        )

    def _of_list(self, raw: RawRow, value: Mapping[str, Any], position: int) -> Iterator[Row]:
        fields = self.layout.fields
        prompt, messages = self._prompt(value)
        responses = _list(fields["response"], value)
        if not responses:
            raise BadValueError(fields["response"], "a list of responses", "an empty list")
        rewards = _list(fields["reward"], value, len(responses))
        columns = {
            role: _list(fields[role], value, len(responses))
            for role in ("true_reward", "correct", "final_answer", "tokens", "truncated")
            if role in fields and field_of(value, fields[role]) is not None
        }
        step = step_of(self.layout, value)
        answer = _optional(values.short_text, fields, "answer", value)
        name = _id(self.layout, value, raw.number)
        for sample, text in enumerate(responses):
            where = f"{fields['response']}.{sample}"

            def one(role: str, check: Any, sample: int = sample) -> Any:
                return check(f"{fields[role]}.{sample}", columns[role][sample]) if role in columns else None

            yield Row(
                row=raw.number,
                sample=sample,
                line=raw.line,
                position=position + sample,
                step=step,
                group=str(raw.number),
                id=f"{name}/{sample}",
                prompt=prompt,
                messages=messages,
                response=values.response(where, text),
                reward=_listed_reward(self.layout, f"{fields['reward']}.{sample}", rewards[sample]),
                true_reward=one("true_reward", values.number),
                correct=one("correct", values.truth),
                answer=answer,
                final_answer=one("final_answer", values.short_text),
                tokens=one("tokens", values.count),
                truncated=one("truncated", values.truth),
            )

    def _prompt(self, value: Mapping[str, Any]) -> tuple[str, Messages | None]:
        fields = self.layout.fields
        if "prompt" not in fields:
            return "", None
        given = field_of(value, fields["prompt"])
        if given is None:
            raise BadValueError(fields["prompt"], "the prompt of the rollout", "none")
        text, messages = values.prompt(fields["prompt"], given)
        system = field_of(value, fields["system"]) if "system" in fields else None
        if isinstance(system, str) and system and messages is None:
            messages = ({"role": "system", "content": system}, {"role": "user", "content": text})
        return self._kept(text), messages

    def _kept(self, text: str) -> str:
        """The same text, once in memory for all rollouts of a prompt."""
        return self._texts.setdefault(text, text)


def _reward(layout: Layout, value: Mapping[str, Any]) -> float:
    """The reward; of several columns those that are numbers add up, as TRL adds them."""
    parts = []
    for name in layout.rewards:
        reward = field_of(value, name)
        if reward is None and name not in value and not layout.format.reward_may_lack:
            raise BadValueError(name, "the reward of the rollout", "no such field")
        parts.append(_checked_reward(layout, name)(name, reward))
    scored = [part for part in parts if part == part]
    return values.number("+".join(layout.rewards), sum(scored)) if scored else float("nan")


def _checked_reward(layout: Layout, name: str) -> Callable[[str, Any], float]:
    """A truth value is a reward only in a field of verdicts, such as `correct`."""
    return values.number_or_truth if name in layout.format.fields.get("correct", ()) else values.number


def _listed_reward(layout: Layout, name: str, value: Any) -> float:
    """A number, or a list of one, as reward models with one head give it."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return _checked_reward(layout, layout.fields["reward"])(name, value)


def _list(name: str, value: Mapping[str, Any], length: int | None = None) -> list[Any]:
    entries = field_of(value, name)
    if not isinstance(entries, list):
        got = values.described(entries) if entries is not None else "none"
        raise BadValueError(name, "a list, one entry for each response", got)
    if length is not None and len(entries) != length:
        raise BadValueError(name, f"{length} entries as responses", str(len(entries)))
    return entries


def _optional(check: Any, fields: Mapping[str, str], role: str, value: Mapping[str, Any]) -> Any:
    if role not in fields:
        return None
    checked = check(fields[role], field_of(value, fields[role]))
    return None if isinstance(checked, float) and checked != checked else checked


def step_of(layout: Layout, value: Mapping[str, Any]) -> int | None:
    """The step that a row names; None where its layout has none."""
    if "step" not in layout.fields:
        return None
    name = layout.fields["step"]
    step = field_of(value, name)
    # Trinity's batches may be texts: "12".
    if isinstance(step, str) and step.isascii() and step.isdecimal() and len(step) < 19:
        step = int(step)
    if step is None:
        raise BadValueError(name, "the step of the rollout", "none")
    return values.whole_number(name, step)


def _group(layout: Layout, value: Mapping[str, Any]) -> str:
    name = layout.fields["group"]
    group = field_of(value, name)
    if name == layout.fields.get("prompt") and "system" in layout.fields:
        # The same question under another system message is another prompt.
        system = field_of(value, layout.fields["system"])
        group = group if system is None else [system, group]
    if layout.format is VERL and name == "uid" and isinstance(group, str):
        # {uid of the prompt}_{session}_{index}, as verl's V1 trainer writes it.
        stem = group.rsplit("_", 2)
        return stem[0] if len(stem) == 3 and stem[1].isdecimal() and stem[2].isdecimal() else group
    if layout.format is TRINITY and name == "eid.task" and field_of(value, "eid.step") not in (0, None):
        got = values.described(field_of(value, "eid.step"))
        raise BadValueError("eid.step", "0: one experience for each run of a task", got)
    return group if isinstance(group, str) else _group_name(name, group)


def _group_name(name: str, value: Any) -> str:
    """The name of a group that is no text; values that are different have different names."""
    rounded = isinstance(value, float) and not abs(value) <= 2**53
    if rounded or isinstance(value, Unreadable):
        raise BadValueError(name, "a group that can be told from others", values.described(value))
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        raise BadValueError(name, "a group that can be told from others", values.described(value)) from None


def _id(layout: Layout, value: Mapping[str, Any], number: int) -> str:
    if layout.format is TRINITY and layout.fields.get("id") == "eid.suffix":
        parts = [field_of(value, f"eid.{part}") for part in ("batch", "task", "run", "step", "suffix")]
        return "/".join(str(part) for part in parts)
    if "id" not in layout.fields:
        return str(number)
    identifier = values.short_text(layout.fields["id"], field_of(value, layout.fields["id"]))
    if identifier is None:
        raise BadValueError(layout.fields["id"], "the id of the rollout", "none")
    return identifier


def _truncated(layout: Layout, value: Mapping[str, Any]) -> bool | None:
    if layout.format is TRINITY and layout.fields.get("truncated") == "truncate_status":
        status = field_of(value, "truncate_status")
        return None if status is None else status == "response_truncated"
    return _optional(values.truth, layout.fields, "truncated", value)
