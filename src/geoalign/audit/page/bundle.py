"""Rollouts inside a page: numbers as columns, texts and pairs in compressed pieces that the page opens on demand.

A piece is JSON, deflated (zlib), in base64: nothing in it can be taken for markup.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from geoalign.audit.prompts import without_beginning
from geoalign.audit.results import NUMBERS, AuditReport
from geoalign.files.columns import Bools

# A piece opens within a frame or two; larger ones compress hardly better.
PIECE_CHARACTERS = 400_000
PIECE_PAIRS = 20_000
# What a page carries at most with its pictures, so that with its programs it stays under 6 MB and opens at once. Beyond
# it, groups without a flagged rollout are left out of the page.
MAX_BYTES = 5_500_000
MAX_ROLLOUTS = 20_000
# Of responses, where texts are easily compressed.
CHARACTERS_PER_BYTE = 4
# Characters of the prompt in the list, and of an id or an answer; whole texts are in the pieces.
OPENING = 140
NAME = 120
# Sources that are no rollout of the page.
_LEFT_OUT = -1
_NOT_IN_PAGE = -2


@dataclass(frozen=True)
class Bundle:
    """What the page carries, in base64: columns, pieces of texts and of pairs; how many rollouts are in it or not."""

    columns: str
    texts: list[str]
    pairs: list[str]
    rollouts: int
    left_out: int

    @property
    def size(self) -> int:
        """The bytes that it takes of the page."""
        return sum(map(len, [self.columns, *self.texts, *self.pairs]))


def bundle(report: AuditReport, size: int = MAX_BYTES, rollouts: int = MAX_ROLLOUTS) -> Bundle:
    """Packs the rows of a report for its page, by whole groups, into at most `size` bytes and so many `rollouts`.

    Where room is short, groups with flagged rollouts go first, highest score first, then the others in their order.
    """
    rows = report.rows
    characters = CHARACTERS_PER_BYTE * size
    while True:
        kept = _kept(rows, characters, rollouts)
        packed = _packed_rows(report, kept)
        if packed.size <= size or not kept.any():
            return packed
        # How well texts are compressed is only known once they are.
        scale = 0.97 * size / packed.size
        characters = int(scale * rows["characters"][kept].sum())
        rollouts = int(scale * kept.sum())


def _kept(rows: pandas.DataFrame, characters: int, rollouts: int) -> Bools:
    """[n] Which rows fit into the page, by whole groups."""
    if len(rows) <= rollouts and rows["characters"].sum() <= characters:
        return np.ones(len(rows), dtype=bool)
    suspects = rows["score"].where(rows["anomalous"]).fillna(-np.inf)
    groups = pandas.DataFrame({"group": rows["group"], "length": rows["characters"], "worst": suspects})
    groups["flagged"] = rows["anomalous"]
    groups = groups.groupby("group").agg(
        size=("length", "size"), length=("length", "sum"), flagged=("flagged", "any"), worst=("worst", "max")
    )
    groups = groups[groups["length"] <= characters]
    groups = groups.sort_values(["flagged", "worst"], ascending=False, kind="stable")
    fits = (groups["size"].cumsum() <= rollouts) & (groups["length"].cumsum() <= characters)
    return rows["group"].isin(groups.index[fits]).to_numpy()


def _packed_rows(report: AuditReport, kept: Bools) -> Bundle:
    """The rows that were kept, and their pairs. In the page a rollout goes by its place among them, and a group by its
    place among their groups."""
    page = report.with_texts(report.rows[kept])
    place = pandas.Series(np.arange(len(page)), index=page.index)
    texts = list(_text_pieces(page))
    pairs = list(_pair_pieces(report.pairs, page, place))
    columns = {
        **_row_columns(page, place),
        **_group_columns(page, report.common_beginning),
        "text_starts": [start for start, _ in texts],
        "pair_groups": [piece["group"][0] for piece in pairs],
    }
    return Bundle(
        columns=_packed(columns),
        texts=[_packed(piece) for _, piece in texts],
        pairs=[_packed(piece) for piece in pairs],
        rollouts=len(page),
        left_out=len(report.rows) - len(page),
    )


def _row_columns(page: pandas.DataFrame, place: pandas.Series) -> dict[str, Any]:
    """One list per fact of a rollout; `source` is a place in the page, or says that none stands there."""
    source = page["source"].map(place).fillna(_NOT_IN_PAGE).mask(page["source"] < 0, _LEFT_OUT)
    whole = {name: page[name].tolist() for name in ("index", "sample", "row", "line", "characters")}
    numbers = {name: _numbers(page[name]) for name in (*NUMBERS, "suspicion")}
    names = {name: _names(page[name]) for name in ("id", "answer", "final_answer", "compared_answer")}
    return {
        "group": np.unique(page["group"], return_inverse=True)[1].tolist(),
        "source": source.astype(int).tolist(),
        **whole,
        **numbers,
        **names,
        "flagged": page["anomalous"].astype(int).tolist(),
        "checked": (page["trusted"].eq(True) & page["anomalous"]).astype(int).tolist(),
        "by_spelling": page["by_spelling"].notna().astype(int).tolist(),
        "is_gold": [int(same) if isinstance(same, bool) else None for same in page["is_gold"]],
        "why": [why if isinstance(why, str) else None for why in page["why"]],
    }


def _group_columns(page: pandas.DataFrame, common: str) -> dict[str, Any]:
    """One list per fact of a group, by rising number; `groups` are the numbers."""
    first = page.drop_duplicates("group").sort_values("group")
    files = sorted(first["file"].unique())
    openings = [""] * len(first)
    if "prompt" in first:
        openings = [_opening(without_beginning(prompt, common)) for prompt in first["prompt"]]
    return {
        "groups": first["group"].tolist(),
        "group_step": first["step"].tolist(),
        "group_file": [files.index(file) for file in first["file"]],
        "group_pairs": first["group_pairs"].tolist(),
        "files": _without_folders(files),
        "openings": openings,
    }


def _text_pieces(page: pandas.DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
    """Pieces of texts, each with the place of its first rollout; a prompt stands in a piece once."""
    if "prompt" not in page:
        return
    start = 0
    size = 0
    prompts: dict[str, int] = {}
    which: list[int] = []
    responses: list[str] = []
    for prompt, response in zip(page["prompt"], page["response"], strict=True):
        if responses and size + len(response) > PIECE_CHARACTERS:
            yield start, {"prompts": list(prompts), "prompt": which, "responses": responses}
            start += len(responses)
            size = 0
            prompts = {}
            which = []
            responses = []
        if prompt not in prompts:
            size += len(prompt)
        which.append(prompts.setdefault(prompt, len(prompts)))
        responses.append(response)
        size += len(response)
    if responses:
        yield start, {"prompts": list(prompts), "prompt": which, "responses": responses}


def _pair_pieces(
    pairs: pandas.DataFrame | None, page: pandas.DataFrame, place: pandas.Series
) -> Iterator[dict[str, Any]]:
    """Pieces of pairs, whole groups by rising number; a group is in the piece in which its first pair is."""
    if pairs is None:
        return
    pairs = pairs[pairs["better"].isin(page.index) & pairs["worse"].isin(page.index)]
    pairs = pairs.sort_values("group", kind="stable")
    groups = np.unique(page["group"])
    piece = np.searchsorted(pairs["group"], pairs["group"]) // PIECE_PAIRS
    for _, part in pairs.groupby(piece):
        yield {
            "group": np.searchsorted(groups, part["group"]).tolist(),
            "better": place[part["better"]].tolist(),
            "worse": place[part["worse"]].tolist(),
            **{name: _numbers(part[name].round(4)) for name in ("deviation", "raw_cosine", "projected_cosine")},
        }


def _opening(prompt: str) -> str:
    return " ".join(prompt[: 4 * OPENING].split())[:OPENING]


def _names(column: pandas.Series) -> list[str | None]:
    return [text[:NAME] if isinstance(text, str) else None for text in column]


def _without_folders(files: list[str]) -> list[str]:
    """Names without their folders where they still differ."""
    names = [file.replace("\\", "/").rsplit("/", 1)[-1] for file in files]
    return names if len(set(names)) == len(names) else files


def _numbers(values: pandas.Series) -> list[float | int | None]:
    """Numbers as JSON knows them: null for NaN and infinities, whole ones without a point."""
    return [_number(value) for value in values.astype(float).tolist()]


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    is_whole = value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole else value


def _packed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode("ascii")
