"""A batch in memory that behaves as verl's in TransferQueue does, verl's GRPO advantages included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from geoalign.adapters.verl.keys import HIDDEN_KEY


class Tokenizer:
    """Each token is a word, its number."""

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool) -> str:
        return " ".join(map(str, tokens))


class MemoryBatch:
    """Rows as dicts; `padding` names the rows that verl added."""

    def __init__(self, rows: list[dict[str, Any]], padding: Sequence[int] = ()) -> None:
        self.rows = rows
        self.keys = [row["key"] for row in rows]
        self.padding = set(padding)
        self.computed: list[list[int]] = []
        self.was_read: list[str] = []

    @property
    def fields(self) -> list[str]:
        return list(self.rows[0])

    def lengths(self, rows: Sequence[int]) -> list[int] | None:
        tagged = [self.rows[row].get("length_tag") for row in rows]
        return None if None in tagged else tagged

    def read(self, rows: Sequence[int], fields: Sequence[str]) -> dict[str, list[Any]]:
        self.was_read += fields
        copied = {field: [self.rows[row][field] for row in rows] for field in fields}
        return {
            field: [value.clone() if isinstance(value, Tensor) else value for value in values]
            for field, values in copied.items()
        }

    def write(self, rows: Sequence[int], fields: dict[str, list[Tensor]]) -> None:
        for field, values in fields.items():
            for row, value in zip(rows, values, strict=True):
                self.rows[row][field] = value

    def copy(self, donors: Sequence[int], victims: Sequence[int]) -> None:
        held = [dict(self.rows[donor]) for donor in donors]
        for victim, row in zip(victims, held, strict=True):
            own = self.rows[victim]
            self.rows[victim] = {**row, "key": own["key"], "uid": own["uid"]}

    def advantages(self) -> str:
        rows = range(len(self.rows))
        self.computed.append(list(rows))
        scores = {row: self.rows[row]["rm_scores"].sum() for row in rows}
        for row in rows:
            group = torch.stack([scores[other] for other in rows if self.rows[other]["uid"] == self.rows[row]["uid"]])
            mean, deviation = (group.mean(), group.std()) if len(group) > 1 else (0.0, 1.0)
            mask = self.rows[row]["response_mask"]
            advantage = (scores[row] - mean) / (deviation + 1e-6) * mask
            self.rows[row] |= {"advantages": advantage, "returns": advantage.clone()}
        return "whole"


def batch_of(rewards: dict[str, list[float]], *, hidden: int = 4) -> MemoryBatch:
    """One row per reward, grouped by prompt; response i of the batch has i % 3 + 1 tokens, all numbers differ."""
    rows = []
    for uid, values in rewards.items():
        for session, reward in enumerate(values):
            number = len(rows)
            tokens = number % 3 + 1
            scores = torch.zeros(tokens)
            scores[-1] = reward
            rows.append({
                "key": f"{uid}_{session}_0", "uid": uid, "rm_scores": scores,
                "prompts": torch.tensor([ord(letter) for letter in uid]),
                "responses": torch.arange(tokens) + 10 * number,
                "response_mask": torch.ones(tokens, dtype=torch.int64),
                "loss_mask": torch.ones(tokens, dtype=torch.int64),
                "old_log_probs": -torch.arange(1.0, tokens + 1) - number,
                HIDDEN_KEY: torch.full((1, hidden), float(number)),
                "raw_prompt": [{"role": "user", "content": uid}],
                "reward_model": {"style": "rule", "ground_truth": f"gold of {uid}"}, "data_source": "letters",
                "extra_fields": {"reward_extra_info": {"true": reward / 2, "answer": f"a{number}"}},
            })  # fmt: skip
    return MemoryBatch(rows)
