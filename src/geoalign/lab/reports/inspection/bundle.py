"""Rollouts inside a page: numbers as columns, texts and pairs in compressed pieces that the page opens on demand.

A piece is JSON, deflated (zlib), in base64: nothing in it can be taken for markup, and a browser that opens the page
from disk needs no second file. Lone surrogates stay what they are, as escapes of JSON.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoalign.lab.store.columns import Bools, Floats, Ints, batches, decoded, texts
from geoalign.lab.store.curation import SCORES_FILE, TEXTS
from geoalign.lab.store.inspection import Inspection, Scored

# A piece opens within a frame or two; larger ones compress hardly better.
PIECE_CHARACTERS = 400_000
PIECE_PAIRS = 20_000
# What a browser still opens within seconds. Beyond it, groups without a flagged rollout are left out of the page.
MAX_CHARACTERS = 160_000_000
MAX_ROLLOUTS = 50_000
# Of the prompt in the list; whole texts are in the pieces.
OPENING = 140
NAME = 120
_NUMBERS = (
    "reward", "true_reward", "correct", "truncated", "tokens", "score", "weight", "new_reward", "probability_wrong",
    "denoised_reward",
)  # fmt: skip


@dataclass(frozen=True)
class Bundle:
    """What the page carries: `columns` and the pieces, each in base64.

    Attributes:
        columns: the rollouts' and groups' numbers and names.
        texts: prompts and responses of runs of rollouts; empty in a redacted folder.
        pairs: the pairs of runs of groups.
        rollouts: rollouts in the page; `left_out`: those that the page had no room for.
    """

    columns: str
    texts: list[str]
    pairs: list[str]
    rollouts: int
    left_out: int


def bundle(inspection: Inspection, characters: int = MAX_CHARACTERS, rollouts: int = MAX_ROLLOUTS) -> Bundle:
    """Packs a folder for its page.

    Where the texts or the rollouts are more than the limits, groups with flagged rollouts go first, highest score
    first, then the others in their order; a group is in the page whole or not at all.
    """
    kept = _kept(inspection.scored, characters, rollouts)
    index = np.cumsum(kept) - 1
    openings: dict[int, str] = {}
    texts, starts = [], []
    for start, piece in _texts(inspection, kept, openings):
        starts.append(start)
        texts.append(_packed(piece))
    pairs, pair_groups = _pairs(inspection, kept, index)
    columns = {
        **_columns(inspection.scored, kept, index),
        "openings": _by_group(inspection.scored, kept, openings),
        "text_starts": starts,
        "pair_groups": pair_groups,
    }
    return Bundle(_packed(columns), texts, pairs, int(kept.sum()), int((~kept).sum()))


def _kept(scored: Scored, characters: int, rollouts: int) -> Bools:
    if len(scored) <= rollouts and int(scored.characters.sum()) <= characters:
        return np.ones(len(scored), dtype=bool)
    groups = int(scored.group.max()) + 1
    size = np.bincount(scored.group, minlength=groups)
    length = np.bincount(scored.group, weights=scored.characters, minlength=groups)
    worst = np.full(groups, -np.inf)
    suspects = scored.anomalous & ~np.isnan(scored.score)
    np.maximum.at(worst, scored.group[suspects], scored.score[suspects])
    flagged = np.bincount(scored.group, weights=scored.anomalous, minlength=groups) > 0
    order = np.lexsort((np.arange(groups), -worst, ~flagged))
    fits = (np.cumsum(size[order]) <= rollouts) & (np.cumsum(length[order]) <= characters)
    chosen = np.zeros(groups, dtype=bool)
    chosen[order[fits]] = True
    return chosen[scored.group]


def _columns(scored: Scored, kept: Bools, index: Ints) -> dict[str, Any]:
    """One list per fact. `source` is an index in the page: -1 left out of the data, -2 a rollout not in the page."""
    source = scored.source[kept]
    inside = source.copy()
    inside[source >= 0] = np.where(kept[source[source >= 0]], index[source[source >= 0]], -2)
    groups, group = np.unique(scored.group[kept], return_inverse=True)
    first = scored.first[groups] if len(scored) else groups
    named = list(map(decoded, scored.file.take(first).to_pylist()))
    files = sorted(set(named))
    number = {name: at for at, name in enumerate(files)}
    names = [number[name] for name in named]
    return {
        "index": np.flatnonzero(kept).tolist(),
        "group": group.tolist(),
        "source": inside.tolist(),
        "sample": scored.sample[kept].tolist(),
        "row": scored.row[kept].tolist(),
        "characters": scored.characters[kept].tolist(),
        "flagged": scored.anomalous[kept].astype(int).tolist(),
        **{name: _numbers(getattr(scored, name)[kept]) for name in _NUMBERS},
        "id": [decoded(name)[:NAME] for name in _take(scored.identity, kept)],
        "answer": _names(scored.answer, kept),
        "final_answer": _names(scored.final_answer, kept),
        "groups": groups.tolist(),
        "group_id": scored.group_id[first].tolist(),
        "group_step": scored.step[first].tolist(),
        "group_file": names,
        "group_pairs": scored.group_pairs[first].tolist(),
        "files": _shortened(files),
    }


def _shortened(files: list[str]) -> list[str]:
    """Names without their folders where they still differ."""
    names = [file.replace("\\", "/").rsplit("/", 1)[-1] for file in files]
    return names if len(set(names)) == len(names) else files


def _names(column: Any, kept: Bools) -> list[str | None]:
    return [None if name is None else decoded(name)[:NAME] for name in _take(column, kept)]


def _take(column: Any, kept: Bools) -> list[Any]:
    return column.filter(kept).to_pylist()


def _by_group(scored: Scored, kept: Bools, openings: dict[int, str]) -> list[str]:
    return [openings.get(group, "") for group in np.unique(scored.group[kept]).tolist()]


def _numbers(values: Floats) -> list[float | int | None]:
    """Numbers as JSON knows them: null for NaN and infinities, whole ones without a point."""
    return [
        None if not math.isfinite(value) else int(value) if value.is_integer() and abs(value) < 2**53 else value
        for value in values.tolist()
    ]


def _texts(inspection: Inspection, kept: Bools, openings: dict[int, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Pieces of texts with the index of their first rollout: prompts once each, and one response per rollout.

    Notes the opening of each group's prompt on the way. A parquet file is read batch by batch, never whole.
    """
    if inspection.redacted:
        return
    group = inspection.scored.group.tolist()
    index, size = 0, 0
    prompts: dict[str, int] = {}
    which: list[int] = []
    responses: list[str] = []
    for row, prompt, response in _rows(inspection, kept):
        if responses and size + len(response) > PIECE_CHARACTERS:
            yield index - len(responses), {"prompts": list(prompts), "prompt": which, "responses": responses}
            size, prompts, which, responses = 0, {}, [], []
        openings.setdefault(group[row], " ".join(prompt[: 4 * OPENING].split())[:OPENING])
        if prompt not in prompts:
            size += len(prompt)
        which.append(prompts.setdefault(prompt, len(prompts)))
        responses.append(response)
        size += len(response)
        index += 1
    if responses:
        yield index - len(responses), {"prompts": list(prompts), "prompt": which, "responses": responses}


def _rows(inspection: Inspection, kept: Bools) -> Iterator[tuple[int, str, str]]:
    row = 0
    for table in batches(inspection.folder / SCORES_FILE, TEXTS):
        for prompt, response in zip(*(texts(table, name) for name in TEXTS), strict=True):
            if kept[row]:
                yield row, decoded(prompt.as_py()), decoded(response.as_py())
            row += 1


def _pairs(inspection: Inspection, kept: Bools, index: Ints) -> tuple[list[str], list[int]]:
    """Pieces of pairs by rising group, and the first group of each piece, counted as in the page."""
    pairs, group = inspection.pairs, inspection.scored.group
    if pairs is None or not len(pairs):
        return [], []
    inside = np.flatnonzero(kept[pairs.better] & kept[pairs.worse])
    number = np.searchsorted(np.unique(group[kept]), group[pairs.better[inside]])
    order = np.argsort(number, kind="stable")
    inside, number = inside[order], number[order]
    pieces, firsts = [], []
    for part in _parts(number):
        rows = inside[part]
        firsts.append(int(number[part][0]))
        pieces.append(
            _packed(
                {
                    "group": number[part].tolist(),
                    "better": index[pairs.better[rows]].tolist(),
                    "worse": index[pairs.worse[rows]].tolist(),
                    **{
                        name: _numbers(np.round(getattr(pairs, name)[rows], 4))
                        for name in ("deviation", "raw_cosine", "projected_cosine")
                    },
                }
            )
        )
    return pieces, firsts


def _parts(number: Ints) -> Iterable[slice]:
    """Runs of whole groups of about `PIECE_PAIRS` pairs; `number` rises."""
    start = 0
    while start < len(number):
        last = number[min(start + PIECE_PAIRS, len(number)) - 1]
        end = int(np.searchsorted(number, last, side="right"))
        yield slice(start, end)
        start = end


def _packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Inside a JSON string Python's escape of a lone surrogate is JSON's.
    data = text.encode("utf-8", errors="backslashreplace")
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")
