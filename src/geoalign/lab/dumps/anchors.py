"""Anchors of a training, from a dump of rollouts with true rewards or from a flagged.csv with labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geoalign.curators.anchors import Anchors
from geoalign.errors import ConfigError, InputError
from geoalign.lab.dumps.labels import read_labels
from geoalign.lab.dumps.layouts import find_layout
from geoalign.lab.dumps.reading import read_dump
from geoalign.lab.store.curation_tables import restored
from geoalign.lab.tasks.rows import row_name
from geoalign.shown import listed

_TEXTS = ("group", "prompt", "response")


def read_anchors(path: str | Path) -> Anchors:
    """The anchors in a file: every rollout of a dump in any format of `geoalign curate`, or the labelled rows of a CSV.

    A dump's true rewards (`true_reward`) come before its rewards, which may have been corrupted on purpose.
    Prompts that a dump keeps as the model read them stay texts; others become chat messages, a text one of the user.

    Raises:
        ConfigError: no such file, or no known format.
        InputError: a row that is no rollout, has no reward, or a text that was cut to fit a cell; or rewards from
            which nothing could be learnt; the message has the file and the line.
    """
    path = Path(path).expanduser()
    columns = _of_labels(path) if path.name.endswith(".csv") else _of_dump(path)
    try:
        return Anchors(**columns)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _of_labels(path: Path) -> dict[str, Any]:
    texts: dict[str, list[Any]] = {name: [] for name in _TEXTS}
    labels: list[float] = []
    for row in read_labels(path):
        missing = [name for name in _TEXTS if name not in row.cells]
        if missing:
            raise InputError(f"{path}, line 1: expected the columns {', '.join(_TEXTS)}, got {listed(row.cells)}")
        if row.label is None:
            continue
        labels.append(row.label)
        for name in _TEXTS:
            text = restored(row.cells[name])
            if text is None:
                raise InputError(f"{row.place}: {name}: expected the whole text, got one that was cut to fit its cell")
            texts[name].append(text)
    return {
        "prompts": [_asked(text) for text in texts["prompt"]],
        "responses": texts["response"],
        "rewards": labels,
        "groups": texts["group"],
    }


def _of_dump(path: Path) -> dict[str, Any]:
    layout, _ = find_layout(path, name=None, fields={})
    for role in ("prompt", "response"):
        if role not in layout.fields:
            raise ConfigError(f"{path}: {role}: expected a field of it, got a dump without")
    rows = read_dump(path, layout, mixed_groups=True).rows
    rewards = [row.reward if row.true_reward is None else row.true_reward for row in rows]
    for row, reward in zip(rows, rewards, strict=True):
        if math.isnan(reward):
            raise InputError(f"{row_name(path, row.line)}: reward: expected the true reward of an anchor, got none")
    if layout.format.rendered and all(row.messages is None for row in rows):
        prompts: Sequence[Any] = [row.prompt for row in rows]
    else:
        prompts = [row.messages or _asked(row.prompt) for row in rows]
    answers = [row.final_answer for row in rows]
    return {
        "prompts": prompts,
        "responses": [row.response for row in rows],
        "rewards": rewards,
        "groups": [(row.step, row.group) for row in rows],
        "answers": answers if any(answer is not None for answer in answers) else None,
        "truncated": [row.truncated is True for row in rows],
    }


def _asked(text: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": text},)
