"""The scores of a run: where wrong rewards stand in their ranking (the paper's figure "Injected reward errors"), their
density, and the cosines of the pairs that they are made of."""

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
# The rank from which wrong rewards are counted, and the cosine from which the paper calls a pair aligned.
HIGHEST_TENTH = 0.9
ALIGNED = 0.8

_CURVE = Look("blue")
_CROSS = Look("ink", "x", "")
_DOTTED = Look("soft", dash=":")


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
    return RankCurve(score=score[scored][order], flipped=flipped[scored][order])


def rank_curves(steps: Sequence[RolloutStep]) -> list[RankCurve]:
    """One curve for each step in which a rollout has a score."""
    return [rank_curve(step.score, step.flipped & step.flip_known) for step in steps if step.scored.any()]


def pooled_scores(curves: Sequence[RankCurve], points: int = 200) -> tuple[Floats, Floats]:
    """Positions in (0, 1), and of each step the score there, linear between ranks: [points], [steps, points]."""
    grid = (np.arange(points) + 0.5) / points
    return grid, np.stack([np.interp(grid, curve.position, curve.score) for curve in curves])


def rank_panel(curves: Sequence[RankCurve], at: str = "") -> Panel:
    """The score by within-step rank over all steps, wrong rewards as crosses.

    Args:
        at: where the curves are from, for the name of the file.
    """
    grid, scores = pooled_scores(curves)
    middle = scores.mean(axis=0)
    low = np.quantile(scores, 0.1, axis=0)
    high = np.quantile(scores, 0.9, axis=0)
    lines = [Line("mean over steps", 100 * grid, middle, low, high, look=_CURVE)]
    rank = np.concatenate([curve.position[curve.flipped] for curve in curves])
    score = np.concatenate([curve.score[curve.flipped] for curve in curves])
    wrong = "no wrong rewards are marked"
    part = ""
    if len(rank):
        every = math.ceil(len(rank) / MAX_POINTS)
        part = f" One cross in {every} is drawn." if every > 1 else ""
        size = 3 if len(rank) > 200 else 5
        lines.append(Line("wrong reward", 100 * rank[::every], score[::every], look=_CROSS, size=size))
        highest = int((rank > HIGHEST_TENTH).sum())
        wrong = f"{highest} of the {len(rank)} wrong rewards lie in the highest tenth"
    return LinePanel(
        name=f"rank-pooled-{at}" if at else "rank-pooled",
        title=f"Score by rank, {'1 step' if len(curves) == 1 else f'{len(curves)} steps pooled'}",
        alt=(f"The score rises from {middle[0]:.2f} at the lowest to {middle[-1]:.2f} at the highest rank; {wrong}."),
        caption=(
            "Blue: mean score at each within-step rank, band from the 10% to the 90% quantile over steps. Crosses: "
            f"rollouts whose reward was wrong, at their own rank and score.{part} Crosses spread evenly from left to "
            "right mean that the score knows nothing about them."
        ),
        lines=lines,
        x="rank within the step, % (highest score right)",
        y="score",
        xlim=(0, 100),
    )


# --- density and cosines ----------------------------------------------------------------------------------------------


def density_panel(step: int, density: Density, rollouts: RolloutStep | None) -> Panel:
    """The density of a step's scores with its threshold, and the flagged scores as ticks below the axis."""
    flagged = np.empty(0)
    if rollouts is not None:
        flagged = rollouts.score[rollouts.anomalous & rollouts.scored]
    top = float(np.nanmax(density.density, initial=0))
    ends = [density.grid[0], density.grid[-1]]
    lines = [
        Line("density of GDI", density.grid, density.density, look=_CURVE),
        Line(f"{density.alpha:g} × peak", ends, [density.alpha * density.peak] * 2, look=_DOTTED),
    ]
    threshold = "nothing is anomalous"
    if not math.isnan(density.threshold):
        threshold = f"threshold {density.threshold:.2f}"
        lines.append(Line("threshold", [density.threshold] * 2, [0, top], look=Look("orange", dash="--")))
    if len(flagged):
        ticks = np.full(len(flagged), -0.03 * top)
        lines.append(Line(f"flagged: {len(flagged)}", flagged, ticks, look=Look("ink", "|", ""), size=7))
    return LinePanel(
        name=f"gdi-density-step-{step:06d}",
        title=f"GDI density, step {step}",
        alt=(
            f"Density of GDI at step {step}: mode {density.mode:.2f}, alpha {density.alpha:g} of the peak, "
            f"{threshold}; {len(flagged)} rollouts flagged."
        ),
        caption=(
            f"Step {step}: {threshold}. Ticks below the axis: the flagged scores. The threshold is the lowest "
            "anomalous score (pointwise tail: the density at the score itself is below the dotted line) or the first "
            "point where the curve falls below that line (first crossing); a cap may spare the lowest of the anomalous."
        ),
        lines=lines,
        x="GDI",
        y="density",
    )


def cosine_panel(step: int, raw: Floats, projected: Floats) -> Panel:
    """Histograms of the cosines of pairs to their prototype, before and after the projector."""
    aligned_before = float((raw > ALIGNED).mean())
    aligned_after = float((projected > ALIGNED).mean())
    edges = np.linspace(-1, 1, 41)
    return LinePanel(
        name="pair-cosines",
        title=f"Cosines to the prototype, step {step}",
        alt=(
            f"Histograms of the cosines of {len(raw)} pairs to their prototype: before projection mean "
            f"{raw.mean():.2f}, {aligned_before:.0%} above {ALIGNED}; after it mean {projected.mean():.2f}, "
            f"{aligned_after:.0%} above {ALIGNED}."
        ),
        caption=(
            f"{len(raw):,} pairs of step {step}. Above {ALIGNED}, as in the paper: {aligned_before:.0%} before, "
            f"{aligned_after:.0%} after."
        ),
        lines=[
            histogram("before projection", raw, edges, Look("soft", dash="--")),
            histogram("after projection", projected, edges, _CURVE),
        ],
        x="cosine to the prototype",
        y="pairs, %",
        xlim=(-1, 1),
    )
