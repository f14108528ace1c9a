"""What the tables of a curated folder say of each rollout, pair and density, from the steps of one file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from geoalign.lab.curate.denoised import column
from geoalign.lab.curate.steps import CuratedStep, given_answer
from geoalign.lab.dumps.reading import Dump


def score_rows(dump: Dump, steps: Sequence[CuratedStep], first: int) -> Iterator[dict[str, Any]]:
    """The rows of `CurationTables.add_scores` for one file, whose rollouts are numbered from `first` on."""
    decided = {member: facts for step in steps for member, facts in zip(step.members, _facts(step, first), strict=True)}
    for number, row in enumerate(dump.rows):
        facts = decided[number]
        replaced = facts["source"] not in (-1, first + number)
        yield {
            "index": first + number,
            "file": str(dump.path),
            "row": row.row,
            "line": row.line,
            "sample": row.sample,
            "id": row.id,
            "prompt": row.prompt,
            "response": row.response,
            "answer": row.answer,
            "final_answer": given_answer(row),
            "reward": _known(row.reward),
            "true_reward": row.true_reward,
            "correct": row.correct,
            "characters": len(row.response),
            "tokens": row.tokens,
            "truncated": row.truncated,
            "trusted": row.label is not None,
            "label": row.label,
            "replacement": dump.rows[facts["source"] - first].response if replaced else None,
            **facts,
        }


def filtered_lines(dump: Dump, scored: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The rollouts that stay, one a line of JSON, each in its place with the response that stands there afterwards.

    A line has what says which rollout it is, and reward, weight and advantage (where there is one) after curation.

    Args:
        scored: the rows of `score_rows`.
    """
    for row, decided in zip(dump.rows, scored, strict=True):
        if decided["source"] < 0:
            continue
        names = ("file", "line", "sample", "step", "group", "id")
        line = {name: decided[name] for name in names} | {
            "prompt": row.messages or row.prompt,
            "response": row.response if decided["replacement"] is None else decided["replacement"],
            "reward": decided["new_reward"],
            "weight": decided["weight"],
        }
        if decided["advantage"] is not None:
            line["advantage"] = decided["advantage"]
        # ASCII: lone surrogates come back as they were.
        yield json.dumps(line).encode("ascii") + b"\n"


def pair_columns(step: CuratedStep, first: int, most: int) -> tuple[dict[str, np.ndarray], int]:
    """The columns of a step's pairs, and how many were left out of those of groups without a flagged rollout, of which
    about `most` are kept; none for a curator that forms no pairs."""
    if step.details is None:
        return {}, 0
    pairs, groups = step.details.pairs, np.asarray(step.groups)
    winner, loser = pairs.winner.cpu().numpy(), pairs.loser.cpu().numpy()
    flagged = np.unique(groups[step.curation.anomalous.cpu().numpy()])
    kept = _kept_pairs(groups[winner], np.isin(groups[winner], flagged), most)
    index = np.asarray(step.members) + first
    columns = {
        "step": np.full(len(kept), step.step),
        "group": groups[winner[kept]],
        "better": index[winner[kept]],
        "worse": index[loser[kept]],
        "deviation": _numbers(pairs.deviation)[kept],
        "raw_cosine": _numbers(pairs.raw_cosine)[kept],
        "projected_cosine": _numbers(pairs.projected_cosine)[kept],
    }
    # Where too few groups have pairs to judge by, the curator has no deviations.
    judged = ~np.isnan(columns["deviation"])
    return {name: values[judged] for name, values in columns.items()}, len(winner) - len(kept)


def density_columns(step: CuratedStep) -> dict[str, list[Any]]:
    """The columns of the density of a step's scores; none where the curator estimates none."""
    if step.details is None or step.details.density is None:
        return {}
    density = step.details.density
    size = len(density.grid)
    return {
        "step": [step.step] * size,
        "score": density.grid.tolist(),
        "density": density.density.tolist(),
        "threshold": [_known(float(density.threshold))] * size,
        "peak": [float(density.peak)] * size,
    }


def _facts(step: CuratedStep, first: int) -> list[dict[str, Any]]:
    """What the step says of each of its rollouts."""
    placement = step.placement
    source = np.where(placement.kept.numpy(), placement.source.numpy(), -1)
    index = np.asarray(step.members) + first
    anomalous = step.curation.anomalous.cpu().numpy()
    statistics = _group_statistics(step)
    scores = _numbers(step.curation.scores)
    weights, rewards = _numbers(placement.weights), _numbers(placement.rewards)
    wrong, denoised, advantages = (
        column(values, len(step.rows)) for values in (step.probability_wrong, step.denoised, placement.advantages)
    )
    return [
        {
            "step": step.step,
            "group": int(group),
            "score": _known(scores[row]),
            "anomalous": bool(anomalous[row]),
            "source": -1 if source[row] < 0 else int(index[source[row]]),
            "weight": float(weights[row]),
            "new_reward": _known(rewards[row]),
            "advantage": advantages[row],
            "probability_wrong": wrong[row],
            "denoised_reward": denoised[row],
            "group_pairs": int(step.group_pairs[row]),
            **statistics[int(group)],
        }
        for row, group in enumerate(step.groups)
    ]


def _group_statistics(step: CuratedStep) -> dict[int, dict[str, Any]]:
    """Of each group its size, mean and standard deviation (ddof 1) of the rewards that there are, rollouts flagged."""
    anomalous = step.curation.anomalous.cpu().numpy()
    groups = np.asarray(step.groups)
    rewards = np.array([row.reward for row in step.rows])
    order = np.argsort(groups, kind="stable")
    names, starts = np.unique(groups[order], return_index=True)
    statistics = {}
    for name, members in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
        scored = rewards[members][~np.isnan(rewards[members])]
        statistics[name] = {
            "group_size": len(members),
            "group_mean": float(scored.mean()) if len(scored) else None,
            "group_std": float(scored.std(ddof=1)) if len(scored) > 1 else None,
            "group_flagged": int(anomalous[members].sum()),
        }
    return statistics


def _kept_pairs(group: np.ndarray, flagged: np.ndarray, most: int) -> np.ndarray:
    """All pairs of flagged groups; of the others whole groups, evenly spread, up to `most` pairs."""
    others, sizes = np.unique(group[~flagged], return_counts=True)
    every = max(1, math.ceil(sizes.sum() / most)) if most else len(others) + 1
    chosen, total = [], 0
    for name, size in zip(others[::every].tolist(), sizes[::every].tolist(), strict=True):
        if total + size > most:
            break
        chosen.append(name)
        total += size
    return np.flatnonzero(flagged | np.isin(group, chosen))


def _known(value: float) -> float | None:
    """None for NaN: what a table holds as null."""
    return None if math.isnan(value) else float(value)


def _numbers(values: Any) -> np.ndarray:
    numbers: np.ndarray = values.detach().cpu().double().numpy()
    return numbers
