"""Rollouts inside a page: numbers as columns, texts and pairs in compressed pieces that the page opens on demand.

A piece is JSON, deflated (zlib), in base64: nothing in it can be taken for markup.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from geoalign.audit.flags import by_suspicion, flag_reasons
from geoalign.audit.folder import SCORES_FILE, TEXTS
from geoalign.audit.gold import is_gold
from geoalign.audit.prompts import common_beginning, without_beginning
from geoalign.audit.results import NUMBERS, AuditResults
from geoalign.files.columns import Bools, Floats, Ints, batches

# A piece opens within a frame or two; larger ones compress hardly better.
PIECE_CHARACTERS = 400_000
PIECE_PAIRS = 20_000
# What a page carries at most with its pictures, so that with its programs it stays under 6 MB and opens at once. Beyond
# it, groups without a flagged rollout are left out of the page.
MAX_BYTES = 5_500_000
MAX_ROLLOUTS = 20_000
# Of responses, where texts are easily compressed.
CHARACTERS_PER_BYTE = 4
# Of the prompt in the list; whole texts are in the pieces.
OPENING = 140
NAME = 120


@dataclass(frozen=True)
class Bundle:
    """What the page carries, in base64: columns, pieces of texts and of pairs; how many rollouts are in it or not."""

    columns: str
    texts: list[str]
    pairs: list[str]
    rollouts: int
    left_out: int


def bundle(audit: AuditResults, size: int = MAX_BYTES, rollouts: int = MAX_ROLLOUTS) -> Bundle:
    """Packs a folder for its page, by whole groups; where room is short, those with flagged rollouts go first,
    highest score first, then the others in their order."""
    reasons = flag_reasons(audit)
    scored, characters = audit.scored, CHARACTERS_PER_BYTE * size
    while True:
        kept = _kept(scored, characters, rollouts)
        packed = _bundle(audit, reasons, kept)
        over = (len(packed.columns) + sum(map(len, packed.texts)) + sum(map(len, packed.pairs))) / size
        if over <= 1 or not kept.any():
            return packed
        # How well texts are compressed is only known once they are.
        kept_characters = int(scored["characters"][kept].sum())
        characters, rollouts = (int(0.97 / over * number) for number in (kept_characters, kept.sum()))


def _bundle(audit: AuditResults, reasons: Mapping[int, str], kept: Bools) -> Bundle:
    index = np.cumsum(kept) - 1
    ranks = {row: rank for rank, row in enumerate(by_suspicion(audit.scored).index.tolist())}
    openings: dict[int, str] = {}
    common = common_beginning(audit)
    texts, starts = [], []
    for start, piece in _texts(audit, kept, openings, common):
        starts.append(start)
        texts.append(_packed(piece))
    pairs, pair_groups = _pairs(audit, kept, index)
    columns = {
        **_columns(audit.scored, kept, index),
        "why": [reasons.get(row) for row in np.flatnonzero(kept).tolist()],
        "checked": (audit.scored["trusted"][kept].eq(True) & audit.scored["anomalous"][kept]).astype(int).tolist(),
        "suspicion": [ranks.get(row) for row in np.flatnonzero(kept).tolist()],
        "openings": [openings.get(group, "") for group in np.unique(audit.scored["group"][kept]).tolist()],
        "text_starts": starts,
        "pair_groups": pair_groups,
    }
    return Bundle(_packed(columns), texts, pairs, int(kept.sum()), int((~kept).sum()))


def _kept(scored: pandas.DataFrame, characters: int, rollouts: int) -> Bools:
    if len(scored) <= rollouts and scored["characters"].sum() <= characters:
        return np.ones(len(scored), dtype=bool)
    suspects = scored["score"].where(scored["anomalous"])
    groups = scored.assign(worst=suspects.fillna(-np.inf)).groupby("group").agg(
        size=("row", "size"), length=("characters", "sum"), flagged=("anomalous", "any"), worst=("worst", "max")
    )  # fmt: skip
    order = groups[groups["length"] <= characters].sort_values(["flagged", "worst"], ascending=False, kind="stable")
    fits = order[(order["size"].cumsum() <= rollouts) & (order["length"].cumsum() <= characters)]
    return scored["group"].isin(fits.index).to_numpy()


def _columns(scored: pandas.DataFrame, kept: Bools, index: Ints) -> dict[str, Any]:
    """One list per fact. `source` is an index in the page: -1 left out of the data, -2 a rollout not in the page."""
    page = scored[kept]
    inside = page["source"].to_numpy().copy()
    there = inside >= 0
    inside[there] = np.where(kept[inside[there]], index[inside[there]], -2)
    first = page.drop_duplicates("group").sort_values("group")
    files = sorted(first["file"].unique())
    whole = {name: page[name].tolist() for name in ("sample", "row", "line", "characters")}
    return {
        "index": np.flatnonzero(kept).tolist(),
        "group": np.unique(page["group"], return_inverse=True)[1].tolist(),
        "source": inside.tolist(),
        **whole,
        "flagged": page["anomalous"].astype(int).tolist(),
        **{name: _numbers(page[name].to_numpy()) for name in NUMBERS},
        **{
            name: [text[:NAME] if isinstance(text, str) else None for text in page[name]]
            for name in ("id", "answer", "final_answer", "compared_answer")
        },
        "is_gold": _is_gold(page),
        "by_spelling": page["by_spelling"].notna().astype(int).tolist(),
        "groups": first["group"].tolist(),
        "group_id": first["group_id"].tolist(),
        "group_step": first["step"].tolist(),
        "group_file": [files.index(file) for file in first["file"]],
        "group_pairs": first["group_pairs"].tolist(),
        "files": _shortened(files),
    }


def _is_gold(page: pandas.DataFrame) -> list[int | None]:
    """Whether the answer of a flagged row is the gold answer, 1 or 0; None where that is not known, and elsewhere."""
    flagged = page[page["anomalous"]]
    known = dict(zip(flagged.index, is_gold(flagged), strict=True))
    return [{True: 1, False: 0, None: None}[known.get(row)] for row in page.index]


def _shortened(files: list[str]) -> list[str]:
    """Names without their folders where they still differ."""
    names = [file.replace("\\", "/").rsplit("/", 1)[-1] for file in files]
    return names if len(set(names)) == len(names) else files


def _numbers(values: Floats) -> list[float | int | None]:
    """Numbers as JSON knows them: null for NaN and infinities, whole ones without a point."""
    return [
        None if not math.isfinite(value) else int(value) if value.is_integer() and abs(value) < 2**53 else value
        for value in values.tolist()
    ]


def _texts(
    audit: AuditResults, kept: Bools, openings: dict[int, str], common: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Pieces of texts with the index of their first rollout, batch by batch; notes the openings of prompts, without
    what is common to all of them."""
    if audit.redacted:
        return
    group = audit.scored["group"].to_numpy().tolist()
    index, size = 0, 0
    prompts: dict[str, int] = {}
    which: list[int] = []
    responses: list[str] = []
    for row, prompt, response in _rows(audit, kept):
        if responses and size + len(response) > PIECE_CHARACTERS:
            yield index - len(responses), {"prompts": list(prompts), "prompt": which, "responses": responses}
            size, prompts, which, responses = 0, {}, [], []
        if group[row] not in openings:
            shown = without_beginning(prompt, common)
            openings[group[row]] = " ".join(shown[: 4 * OPENING].split())[:OPENING]
        if prompt not in prompts:
            size += len(prompt)
        which.append(prompts.setdefault(prompt, len(prompts)))
        responses.append(response)
        size += len(response)
        index += 1
    if responses:
        yield index - len(responses), {"prompts": list(prompts), "prompt": which, "responses": responses}


def _rows(audit: AuditResults, kept: Bools) -> Iterator[tuple[int, str, str]]:
    start = 0
    for table in batches(audit.folder / SCORES_FILE, TEXTS):
        rows = start + np.flatnonzero(kept[start : start + len(table)])
        texts = table.take(rows - start) if len(rows) else table.slice(0, 0)
        yield from zip(rows.tolist(), *(texts[name].to_pylist() for name in TEXTS), strict=True)
        start += len(table)


_FLOATS = ("deviation", "raw_cosine", "projected_cosine")


def _pairs(audit: AuditResults, kept: Bools, index: Ints) -> tuple[list[str], list[int]]:
    """Pieces of pairs, whole groups by rising number, and the first group of each piece, counted as in the page."""
    pairs, group = audit.pairs, audit.scored["group"].to_numpy()
    if pairs is None or not len(pairs):
        return [], []
    pairs = pairs[kept[pairs["better"]] & kept[pairs["worse"]]]
    better, worse = pairs["better"].to_numpy(), pairs["worse"].to_numpy()
    number = np.searchsorted(np.unique(group[kept]), group[better])
    found = pairs[list(_FLOATS)].assign(group=number, better=index[better], worse=index[worse])
    found = found.sort_values("group", kind="stable")
    # A group is in the piece in which its first pair is.
    piece = np.searchsorted(found["group"], found["group"]) // PIECE_PAIRS
    parts = [part for _, part in found.groupby(piece)]
    packed = [
        {name: part[name].tolist() for name in ("group", "better", "worse")}
        | {name: _numbers(np.round(part[name].to_numpy(), 4)) for name in _FLOATS}
        for part in parts
    ]
    return list(map(_packed, packed)), [int(part["group"].iloc[0]) for part in parts]


def _packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode("ascii")
