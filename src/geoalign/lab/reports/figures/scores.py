"""Where suspected and flipped rewards stand in the ranking by score (the paper's figure "Injected reward errors")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.columns import Bools, Floats, Ints
from geoalign.lab.store.rollouts import RolloutStep

TENTHS = 10
# More marks than this hide one another and swell the page; a regular subset is drawn and the caption says so.
MAX_CROSSES = 1500
MAX_POINTS = 2000


@dataclass(frozen=True, eq=False)
class RankCurve:
    """The scored rollouts of one step, lowest score first: the score and whether the reward was flipped."""

    step: int
    score: Floats
    flipped: Bools

    @property
    def rank(self) -> Ints:
        """Ranks from 1, the highest score last."""
        return np.arange(1, len(self.score) + 1)

    @property
    def position(self) -> Floats:
        """Within-step rank in (0, 1): (rank - 1/2) / n, so that steps of any size can be pooled."""
        return (self.rank - 0.5) / len(self.score)


@dataclass(frozen=True, eq=False)
class PooledRanks:
    """All steps pooled by within-step rank.

    Attributes:
        grid: positions in (0, 1).
        mean: mean over steps of the score at each position, linear between ranks.
        low: 10% quantile over steps; `high`: 90%.
        cross_position: position of every flipped rollout; `cross_score`: its score.
    """

    grid: Floats
    mean: Floats
    low: Floats
    high: Floats
    cross_position: Floats
    cross_score: Floats


def rank_curve(rollouts: RolloutStep) -> RankCurve:
    """Orders the scored rollouts by score; rollouts of equal score stay in the order of their rows."""
    return curve_of(rollouts.step, rollouts.score, rollouts.flipped & rollouts.flip_known, rollouts.scored)


def curve_of(step: int, score: Floats, flipped: Bools, scored: Bools) -> RankCurve:
    """The curve of the rows that are scored."""
    order = np.argsort(score[scored], kind="stable")
    return RankCurve(step, score[scored][order], flipped[scored][order])


def pooled_ranks(curves: Sequence[RankCurve], points: int = 200) -> PooledRanks:
    """Pools the curves of several steps; every step counts alike, whatever its number of rollouts."""
    grid = (np.arange(points) + 0.5) / points
    scores = np.stack([np.interp(grid, curve.position, curve.score) for curve in curves])
    return PooledRanks(
        grid=grid,
        mean=scores.mean(axis=0),
        low=np.quantile(scores, 0.1, axis=0),
        high=np.quantile(scores, 0.9, axis=0),
        cross_position=np.concatenate([curve.position[curve.flipped] for curve in curves]),
        cross_score=np.concatenate([curve.score[curve.flipped] for curve in curves]),
    )


def flips_by_tenth(curves: Sequence[RankCurve]) -> Floats:
    """[10] share of flipped rollouts in each tenth of the within-step ranks, steps pooled; NaN for an empty tenth."""
    position = np.concatenate([curve.position for curve in curves])
    tenth = np.minimum((position * TENTHS).astype(np.int64), TENTHS - 1)
    rollouts = np.bincount(tenth, minlength=TENTHS)
    flips = np.bincount(tenth, weights=np.concatenate([curve.flipped for curve in curves]), minlength=TENTHS)
    return np.divide(flips, rollouts, out=np.full(TENTHS, np.nan), where=rollouts > 0)


def pooled_panel(curves: Sequence[RankCurve], word: str = "flipped") -> Panel:
    """GDI by within-step rank over all steps, flipped rollouts as crosses; `word` says what was done to them."""
    pooled = pooled_ranks(curves)
    flips = len(pooled.cross_position)
    every = -(-flips // MAX_CROSSES) if flips else 1
    upper = int((pooled.cross_position > 0.9).sum())

    def draw(axes: Axes, theme: Theme) -> None:
        percent = 100 * pooled.grid
        axes.fill_between(percent, pooled.low, pooled.high, color=theme.blue, alpha=0.18, linewidth=0)
        axes.plot(percent, pooled.mean, color=theme.blue, linewidth=2.4, zorder=4, label="GDI, mean over steps")
        rank, score = 100 * pooled.cross_position[::every], pooled.cross_score[::every]
        many = flips > 200
        _crosses(axes, theme, rank, score, word, size=12 if many else 22, alpha=0.5 if many else 1.0)
        axes.set(xlabel="rank within the step, % (highest GDI right)", ylabel="GDI", xlim=(0, 100))
        axes.legend(loc="upper left")

    share = (
        f"{upper} of the {flips} {word} rewards lie in the highest tenth" if flips else f"no {word} rewards are marked"
    )
    drawn = f" Every {every}th cross is drawn." if every > 1 else ""
    return Panel(
        name="gdi-rank-pooled",
        title=f"GDI by rank, {'1 step' if len(curves) == 1 else f'{len(curves)} steps pooled'}",
        alt=f"GDI rises from {pooled.mean[0]:.2f} at the lowest to {pooled.mean[-1]:.2f} at the highest rank; {share}.",
        caption="Blue: mean GDI at each within-step rank, band from the 10% to the 90% quantile over steps. Crosses: "
        f"rollouts whose reward was {word}, at their own rank and score.{drawn} Crosses spread evenly from left to "
        "right mean that GDI knows nothing about them.",
        draw=draw,
    )


def step_panel(curve: RankCurve, word: str = "flipped") -> Panel:
    """GDI by rank in one step, as in the paper: crosses on the curve."""
    flips = int(curve.flipped.sum())
    ranks = curve.rank[curve.flipped]
    middle = f"their median rank is {np.median(ranks):.0f}" if flips else "there are none to rank"

    def draw(axes: Axes, theme: Theme) -> None:
        axes.plot(curve.rank, curve.score, color=theme.blue, linewidth=2.2, label="GDI")
        _crosses(axes, theme, ranks, curve.score[curve.flipped], word, size=40)
        axes.set(xlabel="rank (highest GDI right)", ylabel="GDI")
        axes.legend(loc="upper left")

    return Panel(
        name=f"gdi-rank-step-{curve.step:06d}",
        title=f"GDI by rank, step {curve.step}",
        alt=f"GDI of {len(curve.score)} rollouts by rank at step {curve.step}; {flips} {word} rewards, {middle}.",
        caption=f"{len(curve.score)} scored rollouts of step {curve.step}, {flips} of them with a {word} reward.",
        draw=draw,
    )


def tenths_panel(curves: Sequence[RankCurve], word: str = "flipped") -> Panel:
    """Share of flipped rewards in each tenth of the ranks, against their share overall."""
    shares = flips_by_tenth(curves)
    base = sum(int(curve.flipped.sum()) for curve in curves) / sum(len(curve.score) for curve in curves)

    def draw(axes: Axes, theme: Theme) -> None:
        axes.bar(np.arange(TENTHS) * 10 + 5, 100 * shares, width=9, color=theme.blue)
        axes.axhline(100 * base, color=theme.orange, linewidth=2, linestyle="--", label=f"overall: {base:.1%}")
        axes.set(xlabel="rank within the step, % (highest GDI right)", ylabel=f"{word}, % of the tenth", xlim=(0, 100))
        axes.legend(loc="upper left")

    return Panel(
        name="gdi-rank-tenths",
        title=f"{word.capitalize()} rewards by tenth of the ranking",
        alt=f"Share of {word} rewards in the lowest tenth {shares[0]:.1%}, in the highest {shares[-1]:.1%}, "
        f"overall {base:.1%}.",
        caption="Bars above the dashed line hold more of them than chance. A useful score puts them on the right.",
        draw=draw,
    )


def _crosses(axes: Axes, theme: Theme, x: Floats | Ints, y: Floats, word: str, size: float, alpha: float = 1) -> None:
    if len(x):
        named = f"{word} reward"
        axes.scatter(x, y, marker="x", s=size, linewidths=1.1, color=theme.ink, alpha=alpha, zorder=3, label=named)


# --- flags ------------------------------------------------------------------------------------------------------------


def reward_score_panel(steps: tuple[RolloutStep, ...], kind: str = "GDI") -> Panel | str:
    """Every scored rollout by reward and score, flagged ones apart; why not, where none has a score."""
    reward, score, flagged = _scored(steps)
    if not len(score):
        return "No rollout has a score."
    shown = _subset(flagged)
    words = ", ".join(
        f"mean reward of the {who} {reward[mask].mean():.3g}"
        for who, mask in (("flagged", flagged), ("others", ~flagged))
        if mask.any()
    )

    def draw(axes: Axes, theme: Theme) -> None:
        for mask, colour, marker, size, name in (
            (~flagged & shown, theme.blue, "o", 12, "not flagged"),
            (flagged & shown, theme.orange, "^", 22, f"flagged: {int(flagged.sum()):,}"),
        ):
            points = reward[mask], score[mask]
            axes.scatter(*points, s=size, marker=marker, color=colour, alpha=0.6, linewidths=0, label=name)
        axes.set(xlabel="reward", ylabel=kind)
        axes.legend(loc="best", markerscale=1.4)

    return Panel(
        name="reward-score",
        title=f"Reward against {kind}",
        alt=f"{len(score):,} rollouts by reward and {kind}; {words}.",
        caption="Flags that lie at one end of the rewards only mistrust that end as a whole: look whether it is the "
        f"minority of its groups.{_part(shown)}",
        draw=draw,
    )


def rank_panel(steps: tuple[RolloutStep, ...], kind: str = "GDI") -> Panel | str:
    """The scores of all steps in rising order, flagged ones apart; why not, where none has a score."""
    _, score, flagged = _scored(steps)
    if not len(score):
        return "No rollout has a score."
    order = np.argsort(score, kind="stable")
    score, flagged = score[order], flagged[order]
    rank = np.arange(1, len(score) + 1)
    shown = _subset(flagged)
    lowest = f", the lowest flagged score {score[flagged].min():.3g}" if flagged.any() else ""

    def draw(axes: Axes, theme: Theme) -> None:
        axes.plot(rank[shown], score[shown], color=theme.blue, linewidth=2.2, label=kind)
        if flagged.any():
            points, named = (rank[flagged & shown], score[flagged & shown]), f"flagged: {int(flagged.sum()):,}"
            axes.scatter(*points, s=22, marker="^", color=theme.orange, linewidths=0, zorder=3, label=named)
        axes.set(xlabel=f"rank (highest {kind} right)", ylabel=kind)
        axes.legend(loc="upper left")

    return Panel(
        name="score-rank",
        title=f"{kind} by rank",
        alt=f"{kind} of {len(score):,} rollouts by rank, from {score[0]:.3g} to {score[-1]:.3g}{lowest}.",
        caption="A bend at the right end means that a few rollouts stand apart; a straight line, that flagging draws a "
        f"border where there is none.{_part(shown)}",
        draw=draw,
    )


def _scored(steps: tuple[RolloutStep, ...]) -> tuple[Floats, Floats, Bools]:
    """Reward, score and flag of the rollouts that have both, steps one after the other."""
    if not steps:
        return np.empty(0), np.empty(0), np.empty(0, dtype=bool)
    reward, score = (np.concatenate([getattr(step, name) for step in steps]) for name in ("reward", "score"))
    flagged = np.concatenate([step.anomalous for step in steps]).astype(bool)
    known = np.concatenate([step.scored for step in steps]) & np.isfinite(reward)
    return reward[known], score[known], flagged[known]


def _subset(flagged: Bools) -> Bools:
    """All flagged ones, up to the limit, and a regular subset of the others."""
    shown = np.zeros(len(flagged), dtype=bool)
    for mask in (flagged, ~flagged):
        rows = np.flatnonzero(mask)
        shown[rows[:: -(-len(rows) // MAX_POINTS) if len(rows) else 1]] = True
    return shown


def _part(shown: Bools) -> str:
    return "" if shown.all() else f" {int(shown.sum()):,} of {len(shown):,} points are drawn."
