"""Curators on real rollouts whose rewards are really wrong: do they put right responses above wrong ones?

Nobody says beforehand which layer and which position of a model's states to read. Each curator's choice is made on one
half of the prompts, by the labels there, and counts on the other half; both halves together, each with the choice made
on the other, are the curator's figures. The curators themselves see all rewards and no label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.errors import InputError
from geoalign.lab.analysis.detection import ranking, rows_that_count
from geoalign.lab.analysis.order import group_orders
from geoalign.lab.analysis.statistics import (
    Interval,
    clustered_proportion,
    grouped_bootstrap,
    mean_interval,
    paired_difference,
)
from geoalign.lab.bench.curators import CURATOR_SETTINGS
from geoalign.lab.bench.judging import ALL_STATES, Judged, by_curator, by_prediction, by_score, needs_states
from geoalign.lab.bench.labelled import LabelledRollouts
from geoalign.lab.bench.ordered import Explored, Measurement, Ordered, Skipped
from geoalign.lab.text import one_line
from geoalign.method.advantages import group_advantages

OBSERVED = "observed reward"
# Responses of the group with equal outcomes of the checks, times checks passed (CodeT, arXiv 2207.10397).
CONSENSUS = "consensus of checks"
# Expected rewards: nothing is trained on them, so the bias of the default's opposite cannot build up.
_EXPECTED = {"type": "denoise", "least_slope": 1.0}
# Label -> settings, as `geoalign.lab.bench.curators` has them.
ROLLOUT_CURATORS: dict[str, dict[str, Any]] = {
    "denoise": _EXPECTED,
    "denoise, all states": {**_EXPECTED, ALL_STATES: True},
    "denoise, permuted": {**_EXPECTED, "geometry": "permuted"},
    "denoise, no geometry": {**_EXPECTED, "geometry": "none"},
    "geoalign, paper's": CURATOR_SETTINGS["geoalign, paper's"],
    "geoalign, mended": CURATOR_SETTINGS["geoalign, mended"],
    "nearest centroid": {"type": "nearest_centroid"},
    "confident learning": {"type": "confident_learning"},
    "score agreement": {"type": "score_agreement"},
    "noise corrected": {"type": "noise_corrected"},
    "majority vote": {"type": "majority_vote"},
    "rank trim": {"type": "rank_trim"},
    "tie detector": {"type": "tie_detector"},
    "pair count": {"type": "pair_count"},
    "reward distance": {"type": "reward_distance"},
    "oracle": {"type": "oracle"},
}
# Label -> share of the prediction: what the states alone know, and the mean of that and the reward.
PREDICTIONS = {"prediction alone": 1.0, "reward and prediction": 0.5}
_States = tuple[int, str]


def measure_wrong_rewards(
    dump: LabelledRollouts,
    views: Mapping[_States, Float[Tensor, "b d"]],
    *,
    threshold: float,
    batch_groups: int | None = None,
    curators: Mapping[str, Mapping[str, Any]] = ROLLOUT_CURATORS,
    progress: Callable[[str], None] | None = None,
) -> Measurement:
    """Every score and curator on a dump, by its rewards as given and as verdicts: whether a reward reaches `threshold`.

    A verdict is wrong where it differs from the label; rewards as given are judged by their verdicts too.

    Args:
        views: the states by layer and position; none: curators that need them are skipped.
        batch_groups: also show the curators the dump in batches of so many prompts, each after the earlier ones.

    Raises:
        InputError: fewer than two prompts have right and wrong responses.
    """
    if len(dump.mixed) < 2:
        raise InputError(f"correct: expected two prompts with right and wrong responses, got {len(dump.mixed)}")
    verdicts = (dump.rewards >= threshold).astype(np.float64)
    wrong = verdicts != dump.correct
    seen = {"as given": dump.rewards, f"verdict: at least {threshold:g}": verdicts}
    if set(np.unique(dump.rewards)) <= {0.0, 1.0}:
        del seen["as given"]
    found = Measurement([], [], [])
    for view, rewards in seen.items():
        judge = _Judge(dump, rewards, wrong, view, found)
        for label, score in _scores(dump, rewards):
            judge.add(label, by_score(score, dump.groups))
        for label, share in PREDICTIONS.items() if views else ():
            judge.add_prediction(label, share, views)
        for size in [None] if batch_groups is None else [None, batch_groups]:
            for label, values in curators.items():
                if progress is not None:
                    progress(f"{view}, {label}")
                judge.add_curator(label, values, views, size)
    return found


def _scores(dump: LabelledRollouts, rewards: Float[np.ndarray, " b"]) -> Iterator[tuple[str, Float[np.ndarray, " b"]]]:
    """The rewards as they came, and scores that count equal responses: no state, no learning."""
    yield OBSERVED, rewards
    if dump.checks is not None:
        alike = _equals(dump.groups, dump.checks)
        passed = np.array([check.count("1") for check in dump.checks], dtype=np.float64)
        yield CONSENSUS, alike * passed
        yield "equal outcomes", alike
    if dump.answers is not None:
        answers = [str(row) if answer is None else f"={answer}" for row, answer in enumerate(dump.answers)]
        yield "equal answers", _equals(dump.groups, answers)


def _equals(groups: Int[np.ndarray, " b"], labels: Any) -> Float[np.ndarray, " b"]:
    """[B] rows of the group with the same label, the row itself included."""
    _, cell, count = np.unique(
        [f"{group} {label}" for group, label in zip(groups, labels, strict=True)],
        return_inverse=True,
        return_counts=True,
    )
    return count[cell].astype(np.float64)


class _Judge:
    """Measures on one view of the rewards."""

    def __init__(
        self,
        dump: LabelledRollouts,
        rewards: Float[np.ndarray, " b"],
        wrong: Bool[np.ndarray, " b"],
        view: str,
        found: Measurement,
    ) -> None:
        self.dump, self.rewards, self.wrong, self.view, self.found = dump, rewards, wrong, view, found
        self.counting = rows_that_count(rewards, dump.groups, np.ones(len(rewards), dtype=bool))
        labels, groups = torch.from_numpy(dump.correct.astype(np.float64)), torch.from_numpy(dump.groups)
        self.wanted = group_advantages(labels, groups).numpy()
        self.observed = group_orders(rewards, dump.correct, dump.groups)
        # Mixed groups in turn: both halves have as many of them.
        self.half = {group: turn % 2 for turn, group in enumerate(dump.mixed)}

    def add_curator(
        self,
        label: str,
        values: Mapping[str, Any],
        views: Mapping[_States, Float[Tensor, "b d"]],
        size: int | None,
    ) -> None:
        """One curator, by the states chosen for it, or by none."""
        batches = "one" if size is None else f"{size} prompts"
        if values["type"] == "oracle" and not set(np.unique(self.rewards)) <= {0.0, 1.0}:
            self._skip(label, "the labels are verdicts, not such rewards")
            return

        def judged(hidden: Tensor | None) -> Judged:
            return by_curator(values, self.dump, self.rewards, hidden, states=len(views), batch_groups=size)

        try:
            if not needs_states(values):
                self.add(label, judged(None), batches)
            elif values.get(ALL_STATES) and views:
                self.add(label, judged(torch.cat(list(views.values()), dim=1)), batches, ("all",))
            elif not views:
                self._skip(label, "no hidden states")
            else:
                self._choose(label, {states: judged(hidden) for states, hidden in views.items()}, batches)
        except InputError as error:
            self._skip(label, one_line(error, 200))

    def _skip(self, label: str, reason: str) -> None:
        skipped = Skipped(self.view, label, reason)
        if skipped not in self.found.skipped:
            self.found.skipped.append(skipped)

    def add_prediction(self, label: str, share: float, views: Mapping[_States, Float[Tensor, "b d"]]) -> None:
        """What the states predict, with some of the reward, by the states chosen for it."""
        groups = self.dump.groups
        runs = {name: by_prediction(hidden, self.rewards, groups, share=share) for name, hidden in views.items()}
        self._choose(label, runs, "one")

    def _choose(self, label: str, runs: Mapping[_States, Judged], batches: str) -> None:
        """Both halves, each by the states that were best on the other."""
        halves = {states: self._halves(run) for states, run in runs.items()}
        for states, values in halves.items():
            self.found.explored.append(Explored(self.view, batches, label, _named(states), values))
        best = [max(runs, key=lambda states: halves[states][half]) for half in (0, 1)]
        chosen = best[::-1]
        # Groups that are not mixed go with the half of their number.
        side = np.array([self.half.get(int(group), int(group) % 2) for group in self.dump.groups])
        both = Judged(
            *(
                np.where(side == 0, getattr(runs[chosen[0]], name), getattr(runs[chosen[1]], name))
                for name in ("advantages", "scores", "flagged")
            )
        )
        self.add(label, both, batches, tuple(map(_named, chosen)))

    def add(self, label: str, judged: Judged, batches: str = "one", states: tuple[str, ...] = ()) -> None:
        """The figures of one score or curator."""
        orders = self._orders(judged)
        self.found.rows.append(
            Ordered(
                self.view,
                batches,
                label,
                states,
                _within_one(mean_interval(np.array(list(orders.values())))),
                paired_difference(orders, self.observed).interval,
                self._halves(judged),
                grouped_bootstrap(lambda rows: _cosine(judged.advantages[rows], self.wanted[rows]), self.dump.groups),
                self._auroc(judged),
                self._share(judged.flagged & self.wrong, judged.flagged),
                self._share(judged.flagged & self.wrong & self.counting, self.wrong & self.counting),
                int(judged.flagged.sum()),
            )
        )

    def _orders(self, judged: Judged) -> dict[int, float]:
        return group_orders(judged.advantages, self.dump.correct, self.dump.groups)

    def _halves(self, judged: Judged) -> tuple[float, float]:
        orders = self._orders(judged)
        first, second = (
            float(np.mean([order for group, order in orders.items() if self.half[group] == half] or [math.nan]))
            for half in (0, 1)
        )
        return first, second

    def _auroc(self, judged: Judged) -> Interval:
        if np.isnan(judged.scores).all():
            return Interval(math.nan, math.nan, math.nan)
        return grouped_bootstrap(
            lambda rows: ranking(judged.scores[rows], self.wrong[rows], self.counting[rows]).auroc, self.dump.groups
        )

    def _share(self, part: Bool[np.ndarray, " b"], whole: Bool[np.ndarray, " b"]) -> Interval:
        """Share with an interval over groups."""
        totals = np.bincount(self.dump.groups, weights=whole)
        return clustered_proportion(np.bincount(self.dump.groups, weights=part)[totals > 0], totals[totals > 0])


def _cosine(given: Float[np.ndarray, " n"], wanted: Float[np.ndarray, " n"]) -> float:
    scale = float(np.linalg.norm(given) * np.linalg.norm(wanted))
    return float(given @ wanted) / scale if scale > 0 else math.nan


def _within_one(interval: Interval) -> Interval:
    return Interval(interval.estimate, max(0.0, interval.low), min(1.0, interval.high))


def _named(states: _States) -> str:
    return f"layer {states[0]}, {states[1]}"
