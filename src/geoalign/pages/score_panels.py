"""The scores of a run: where suspected and flipped rewards stand in their ranking (the paper's figure "Injected reward
errors"), their density, and the cosines of the pairs that they are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geoalign.files.columns import Bools, Floats
from geoalign.files.rollout_step import Density, RolloutStep
from geoalign.pages.style import Line, LinePanel, Look, Panel, histogram

# More marks than this hide one another and swell the page; a regular subset is drawn and the caption says so.
MAX_POINTS = 2000
# In two looks: the curve, the rows that matter.
_CURVE, _CROSS, _FLAGGED, _OTHERS = Look("blue"), Look("ink", "x", ""), Look("orange", "^", ""), Look("blue", "o", "")


# --- ranks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RankCurve:
    """The scored rollouts of one step, lowest score first: the score and whether the reward was flipped."""

    score: Floats
    flipped: Bools

    @property
    def position(self) -> Floats:
        """Within-step rank in (0, 1): (rank - 1/2) / n, so that steps of any size can be pooled."""
        return (np.arange(len(self.score)) + 0.5) / len(self.score)


def rank_curve(score: Floats, flipped: Bools) -> RankCurve:
    """Orders the rollouts that have a score; those of equal score stay in the order of their rows."""
    scored = ~np.isnan(score)
    order = np.argsort(score[scored], kind="stable")
    return RankCurve(score[scored][order], flipped[scored][order])


def rank_curves(steps: Sequence[RolloutStep]) -> list[RankCurve]:
    return [rank_curve(step.score, step.flipped & step.flip_known) for step in steps if step.scored.any()]


def pooled_scores(curves: Sequence[RankCurve], points: int = 200) -> tuple[Floats, Floats]:
    """Positions in (0, 1), and of each step the score there, linear between ranks: [points], [steps, points]."""
    grid = (np.arange(points) + 0.5) / points
    return grid, np.stack([np.interp(grid, curve.position, curve.score) for curve in curves])


def rank_panel(curves: Sequence[RankCurve], at: str = "") -> Panel:
    """The score by within-step rank over all steps, wrong rewards as crosses; `at` says where, for the file's name."""
    grid, scores = pooled_scores(curves)
    middle, low, high = scores.mean(axis=0), np.quantile(scores, 0.1, axis=0), np.quantile(scores, 0.9, axis=0)
    rank = np.concatenate([curve.position[curve.flipped] for curve in curves])
    score = np.concatenate([curve.score[curve.flipped] for curve in curves])
    flips, every = len(rank), -(-len(rank) // MAX_POINTS) or 1
    share = f"{int((rank > 0.9).sum())} of the {flips} wrong rewards lie in the highest tenth"
    part = f" One cross in {every} is drawn." if every > 1 else ""
    crosses = Line("wrong reward", 100 * rank[::every], score[::every], look=_CROSS, size=3 if flips > 200 else 5)
    return LinePanel(
        f"rank-pooled{at and '-'}{at}",
        f"Score by rank, {'1 step' if len(curves) == 1 else f'{len(curves)} steps pooled'}",
        f"The score rises from {middle[0]:.2f} at the lowest to {middle[-1]:.2f} at the highest rank; "
        f"{share if flips else 'no wrong rewards are marked'}.",
        "Blue: mean score at each within-step rank, band from the 10% to the 90% quantile over steps. Crosses: "
        f"rollouts whose reward was wrong, at their own rank and score.{part} Crosses spread evenly from left to "
        "right mean that the score knows nothing about them.",
        [Line("mean over steps", 100 * grid, middle, low, high, look=_CURVE), *([crosses] if flips else [])],
        x="rank within the step, % (highest score right)",
        y="score",
        xlim=(0, 100),
    )


# --- flags ------------------------------------------------------------------------------------------------------------


def suspect_panels(steps: Sequence[RolloutStep], kind: str) -> list[Panel | str]:
    """Scores by rank and by reward, flagged ones marked; then by rank with flips marked, where any is known."""
    curves = rank_curves(steps)
    flips = [rank_panel(curves)] if any(curve.flipped.any() for curve in curves) else []
    return [*flag_panels(steps, kind), *flips]


def flag_panels(steps: Sequence[RolloutStep], kind: str) -> list[Panel | str]:
    if not any((step.scored & np.isfinite(step.reward)).any() for step in steps):
        return ["No rollout has a score."]
    reward, score, flagged = (
        np.concatenate([getattr(step, name)[step.scored & np.isfinite(step.reward)] for step in steps])
        for name in ("reward", "score", "anomalous")
    )
    order = np.argsort(score, kind="stable")
    reward, score, flagged = reward[order], score[order], flagged[order].astype(bool)
    rank = np.arange(1, len(order) + 1)
    shown = np.zeros(len(flagged), dtype=bool)
    for mask in (flagged, ~flagged):
        rows = np.flatnonzero(mask)
        shown[rows[:: -(-len(rows) // MAX_POINTS) or 1]] = True
    part = "" if shown.all() else f" {int(shown.sum()):,} of {len(shown):,} points are drawn."
    of_flagged = f"flagged: {int(flagged.sum()):,}"
    lowest = f", the lowest flagged score {score[flagged].min():.3g}" if flagged.any() else ""
    means = ", ".join(
        f"mean reward of the {who} {reward[mask].mean():.3g}"
        for who, mask in (("flagged", flagged), ("others", ~flagged))
        if mask.any()
    )
    pale, dark = shown & ~flagged, shown & flagged
    return [
        LinePanel(
            "score-rank",
            f"{kind} by rank",
            f"{kind} of {len(score):,} rollouts by rank, from {score[0]:.3g} to {score[-1]:.3g}{lowest}.",
            "A bend at the right end means that a few rollouts stand apart; a straight line, that flagging draws a "
            f"border where there is none.{part}",
            [
                Line(kind, rank[shown], score[shown], look=_CURVE),
                Line(of_flagged, rank[dark], score[dark], look=_FLAGGED),
            ],
            x=f"rank (highest {kind} right)",
            y=kind,
        ),
        LinePanel(
            "reward-score",
            f"Reward against {kind}",
            f"{len(score):,} rollouts by reward and {kind}; {means}.",
            "Flags that lie at one end of the rewards only mistrust that end as a whole: look whether it is the "
            f"minority of its groups.{part}",
            [
                Line("not flagged", reward[pale], score[pale], look=_OTHERS, size=3),
                Line(of_flagged, reward[dark], score[dark], look=_FLAGGED),
            ],
            x="reward",
            y=kind,
        ),
    ]


# --- density and cosines ----------------------------------------------------------------------------------------------


def density_panel(step: int, density: Density, rollouts: RolloutStep | None) -> Panel:
    flagged = np.empty(0) if rollouts is None else rollouts.score[rollouts.anomalous & rollouts.scored]
    top, ends = float(np.nanmax(density.density, initial=0)), [density.grid[0], density.grid[-1]]
    nowhere = math.isnan(density.threshold)
    threshold = "nothing is anomalous" if nowhere else f"threshold {density.threshold:.2f}"
    lines = [
        Line("density of GDI", density.grid, density.density, look=_CURVE),
        Line(f"{density.alpha:g} × peak", ends, [density.alpha * density.peak] * 2, look=Look("soft", dash=":")),
    ]
    if not nowhere:
        lines.append(Line("threshold", [density.threshold] * 2, [0, top], look=Look("orange", dash="--")))
    if len(flagged):
        ticks = np.full(len(flagged), -0.03 * top)
        lines.append(Line(f"flagged: {len(flagged)}", flagged, ticks, look=Look("ink", "|", ""), size=7))
    return LinePanel(
        f"gdi-density-step-{step:06d}",
        f"GDI density, step {step}",
        f"Density of GDI at step {step}: mode {density.mode:.2f}, alpha {density.alpha:g} of the peak, "
        f"{threshold}; {len(flagged)} rollouts flagged.",
        f"Step {step}: {threshold}. Ticks below the axis: the flagged scores. The threshold is the lowest "
        "anomalous score (pointwise tail: the density at the score itself is below the dotted line) or the first point "
        "where the curve falls below that line (first crossing); a cap may spare the lowest of the anomalous.",
        lines,
        x="GDI",
        y="density",
    )


ALIGNED = 0.8


def cosine_panel(step: int, raw: Floats, projected: Floats) -> Panel:
    before, after = (float((cosines > ALIGNED).mean()) for cosines in (raw, projected))
    edges = np.linspace(-1, 1, 41)
    return LinePanel(
        "pair-cosines",
        f"Cosines to the prototype, step {step}",
        f"Histograms of the cosines of {len(raw)} pairs to their prototype: before projection mean {raw.mean():.2f}, "
        f"{before:.0%} above {ALIGNED}; after it mean {projected.mean():.2f}, {after:.0%} above {ALIGNED}.",
        f"{len(raw):,} pairs of step {step}. Above {ALIGNED}, as in the paper: {before:.0%} before, {after:.0%} after.",
        [
            histogram("before projection", raw, edges, Look("soft", dash="--")),
            histogram("after projection", projected, edges, _CURVE),
        ],
        x="cosine to the prototype",
        y="pairs, %",
        xlim=(-1, 1),
    )
